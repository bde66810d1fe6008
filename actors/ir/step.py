"""The members of a command step, in both shapes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.ir.decoding import quoted
from actors.ir.readers import (
    InvalidValue,
    Reader,
    choice,
    command,
    first_line,
    flag,
    integer,
    items,
    line,
    record,
    text,
    variable,
)
from storage import BuildErrorCode, EdgeKind, NewJob, Shape, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.settings import IrSettings
    from storage import Dependency

_MAX_INT32 = 2**31 - 1
_MAX_GLOBS = 100
_MAX_NAME_CHARS = 80
_IMAGE = pattern(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@+-]*")


@immutable
class CommandStep:
    """A command step as read. Only the flat shape has ``env`` and ``builds_in`` (the parent's index).

    ``fields`` are the other fields of its job, by name.
    """

    key: str
    cmd: str
    label: str | None
    image: str | None
    env: Mapping[str, str] | None
    builds_in: int | None
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The label, else the first line of the command; a key may be a hash, which tells a reader nothing."""
        if self.label is not None and self.label.strip():
            return self.label
        return first_line(self.cmd, _MAX_NAME_CHARS) or self.key

    def job(self, env: Mapping[str, str], default_image: str | None, depends_on: tuple[Dependency, ...]) -> NewJob:
        """Return the step's job. A job that builds in another gets no image: the other's disk wins."""
        builds_in = any(dependency.kind is EdgeKind.BUILDS_IN for dependency in depends_on)
        return NewJob(
            step_key=self.key,
            name=self.name,
            command=self.cmd,
            image=None if builds_in else self.image or default_image,
            env=env,
            depends_on=depends_on,
            **self.fields,
        )


def step(limits: IrSettings, more: Mapping[str, Reader[object]]) -> Reader[CommandStep]:
    """Return a reader of one document's command steps; ``more`` reads further members.

    The reader raises InvalidValue, also (``duplicate_key``) if two steps share a key.
    """
    runner_args = _runner_args(limits)
    no_cache, no_args = _cache(), runner_args({})

    def make(
        key: str,
        cmd: str,
        *,
        label: str | None = None,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        builds_in: int | None = None,
        timeout_seconds: int | None = None,
        cache: Mapping[str, object] = no_cache,
        runner_args: Mapping[str, object] = no_args,
    ) -> CommandStep:
        fields = {"timeout_seconds": timeout_seconds, **cache, **runner_args}
        return CommandStep(key, cmd, label, image, env, builds_in, fields)

    required = {"key": _unique(), "cmd": command(limits.max_command_bytes)}
    optional = {
        "label": line,
        "image": image,
        "timeout_seconds": seconds,
        "cache": record(_cache, {"policy": choice("none", "forever", "ttl", "on_change", "compose")}, {"key": text}),
        "runner_args": runner_args,
        **more,
    }
    return record(make, required, optional)


def _cache(policy: str = "none", key: str | None = None) -> Mapping[str, object]:
    return {"cache_policy": policy, "cache_key": None if policy == "none" else key}


def image(value: object) -> str:
    """Read the name of an image, without checking that the image exists."""
    name = text(value)
    if not _IMAGE.fullmatch(name):
        raise InvalidValue(f"an image name in place of {quoted(name)}")
    return name


def _continues(*, continue_on_failure: bool = False) -> bool:
    return continue_on_failure


seconds = integer(1, _MAX_INT32)
continues = record(_continues, {}, {"continue_on_failure": flag})


def _unique() -> Reader[str]:
    seen: set[str] = set()

    def read(value: object) -> str:
        key = text(value)
        if key in seen:
            raise InvalidValue(f"duplicate step key {quoted(key)}", BuildErrorCode.DUPLICATE_KEY)
        seen.add(key)
        return key

    return read


def _runner_args(limits: IrSettings) -> Reader[Mapping[str, object]]:
    """Return a reader of the service's own keys (pipeline-ir.md, "runner_args")."""
    most, default = limits.max_shape, limits.default_shape

    def make(
        cpu: int = default.cpu, memory_gb: int = default.memory_gb, disk_gb: int = default.disk_gb, **others: object
    ) -> Mapping[str, object]:
        given = {field: others.get(key, absent) for key, (field, _, absent) in _OTHER_ARGS.items()}
        return {"shape": Shape(cpu, memory_gb, disk_gb), **given}

    shape = {"cpu": integer(1, most.cpu), "memory_gb": integer(1, most.memory_gb), "disk_gb": integer(1, most.disk_gb)}
    return record(make, {}, {**shape, **{key: reader for key, (_, reader, _) in _OTHER_ARGS.items()}})


def _exit_codes(value: object) -> list[int]:
    return list(items(integer(-_MAX_INT32, _MAX_INT32))(value))


def _soft_fail(value: object) -> Mapping[str, object] | None:
    if isinstance(value, bool):
        return {"exit_codes": None} if value else None
    if not isinstance(value, dict):
        raise InvalidValue('true or an object with "exit_codes"')
    return record(dict, {"exit_codes": _exit_codes}, {})(value)


def _globs(value: object) -> tuple[str, ...]:
    globs = items(_glob)(value)
    if len(globs) > _MAX_GLOBS:
        raise InvalidValue(f"at most {_MAX_GLOBS} globs")
    return globs


def _glob(value: object) -> str:
    pattern = text(value)
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise InvalidValue("a path inside the workspace")
    return pattern


def _switch(value: object) -> bool:
    return choice("on", "off")(value) == "on"


_OTHER_ARGS: Mapping[str, tuple[str, Reader[object], object]] = MappingProxyType(
    {
        "retry": (
            "retry_policy",
            record(
                dict, {"limit": integer(0, 10)}, {"exit_codes": _exit_codes, "backoff_seconds": integer(0, _MAX_INT32)}
            ),
            None,
        ),
        "soft_fail": ("soft_fail_policy", _soft_fail, None),
        "artifacts": ("artifacts", _globs, ()),
        "secrets": ("secrets", items(variable), ()),
        "network": ("network", _switch, True),
        "paths": ("paths", _globs, None),
    }
)
"""The keys of ``runner_args`` besides the shape: the job's field, the reader, the default."""

RUNNER_ARGS = frozenset({"cpu", "memory_gb", "disk_gb", *_OTHER_ARGS})
"""The keys of ``runner_args`` that have an effect."""
