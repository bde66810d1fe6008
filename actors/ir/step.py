"""The members of a command step, in both shapes."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.ir.definition import Dependency, PlannedJob
from actors.ir.errors import IrError, shown
from actors.ir.reading import Misfit, Reader, choice, command, flag, items, line, record, text, title, variable, whole
from storage import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.limits import Limits

__all__ = ["Step", "continues", "image", "seconds", "step"]

_INT32 = 2**31 - 1
_MOST_GLOBS = 100
_LONGEST_NAME = 80
_IMAGE = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@+-]*")


@dataclass(frozen=True, slots=True)
class _Cache:
    policy: str = "none"
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _RunnerArgs:
    cpu: int
    memory_gb: int
    disk_gb: int
    network: str = "on"
    retry: Mapping[str, object] | None = None
    soft_fail: Mapping[str, object] | None = None
    artifacts: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A command step as read. Only the flat shape has ``env`` and ``builds_in`` (the parent's index)."""

    key: str
    cmd: str
    runner_args: _RunnerArgs
    label: str | None = None
    image: str | None = None
    timeout_seconds: int | None = None
    cache: _Cache = _Cache()
    env: Mapping[str, str] | None = None
    builds_in: int | None = None

    @property
    def name(self) -> str:
        """The label, else the first line of the command; a key may be a hash, which tells a reader nothing."""
        if self.label is not None and self.label.strip():
            return self.label
        return title(self.cmd, _LONGEST_NAME) or self.key

    def job(self, env: Mapping[str, str], default_image: str | None, depends_on: tuple[Dependency, ...]) -> PlannedJob:
        """Return the step's job. A job that builds in another gets no image: the other's disk wins."""
        args = self.runner_args
        builds_in = any(dependency.builds_in for dependency in depends_on)
        return PlannedJob(
            key=self.key,
            name=self.name,
            command=self.cmd,
            image=None if builds_in else self.image or default_image,
            env=env,
            shape=Shape(args.cpu, args.memory_gb, args.disk_gb),
            depends_on=depends_on,
            timeout_seconds=self.timeout_seconds,
            network=args.network == "on",
            retry_policy=args.retry,
            soft_fail_policy=args.soft_fail,
            artifacts=args.artifacts,
            secrets=args.secrets,
            cache_policy=self.cache.policy,
            cache_key=None if self.cache.policy == "none" else self.cache.key,
        )


def step(limits: Limits, more: Mapping[str, Reader[object]]) -> Reader[Step]:
    """Return a reader of one document's command steps; ``more`` reads further members.

    The reader raises Misfit, and IrError (``duplicate_key``) if two steps share a key.
    """
    required = {"key": _unique(), "cmd": command(limits.max_command_bytes)}
    runner_args = partial(_RunnerArgs, **asdict(limits.default_shape))
    optional = {
        "label": line,
        "image": image,
        "timeout_seconds": seconds,
        "cache": record(_Cache, {"policy": choice("none", "forever", "ttl", "on_change", "compose")}, {"key": text}),
        "runner_args": record(runner_args, {}, _runner_args(limits.max_shape)),
        **more,
    }
    return record(partial(Step, runner_args=runner_args()), required, optional)


def image(value: object) -> str:
    """Read the name of an image, without checking that the image exists."""
    name = text(value)
    if not _IMAGE.fullmatch(name):
        raise Misfit(f"an image name in place of {shown(name)}")
    return name


def _continues(*, continue_on_failure: bool = False) -> bool:
    return continue_on_failure


seconds = whole(1, _INT32)
continues = record(_continues, {}, {"continue_on_failure": flag})


def _unique() -> Reader[str]:
    seen: set[str] = set()

    def read(value: object) -> str:
        key = text(value)
        if key in seen:
            raise IrError("duplicate_key", f"duplicate step key {shown(key)}")
        seen.add(key)
        return key

    return read


def _runner_args(most: Shape) -> Mapping[str, Reader[object]]:
    """Return the readers of the service's own keys (pipeline-ir.md, "What the DSL cannot say yet")."""
    retry = {"exit_codes": _exit_codes, "backoff_seconds": whole(0, _INT32)}
    return {
        "cpu": whole(1, most.cpu),
        "memory_gb": whole(1, most.memory_gb),
        "disk_gb": whole(1, most.disk_gb),
        "retry": record(dict, {"limit": whole(0, 10)}, retry),
        "soft_fail": _soft_fail,
        "artifacts": _globs,
        "secrets": items(variable),
        "network": choice("on", "off"),
    }


def _exit_codes(value: object) -> list[int]:
    return list(items(whole(-_INT32, _INT32))(value))


def _soft_fail(value: object) -> Mapping[str, object] | None:
    if isinstance(value, bool):
        return {"exit_codes": None} if value else None
    if not isinstance(value, dict):
        raise Misfit('true or an object with "exit_codes"')
    return record(dict, {"exit_codes": _exit_codes}, {})(value)


def _globs(value: object) -> tuple[str, ...]:
    globs = items(_glob)(value)
    if len(globs) > _MOST_GLOBS:
        raise Misfit(f"at most {_MOST_GLOBS} globs")
    return globs


def _glob(value: object) -> str:
    pattern = text(value)
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise Misfit("a path inside the workspace")
    return pattern
