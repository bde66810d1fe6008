"""Warnings about valid pipelines: what has no effect, and failures that are hidden. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_daemon.lint.report import Finding
from ci_daemon.lint.shell_lines import hides_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from actors.ir import Plan
    from ci_daemon.lint.report import Place

_GLOB = frozenset("*?[")
_HIDES_FAILURES = (
    "a line that fails does not fail the step, which passes with its last line: begin the command with"
    ' "set -eo pipefail", or join its lines with "&&"'
)


def doubts(
    definition: Any,  # noqa: ANN401 - the IR, which was planned and so has its shape
    triggers: Iterable[object],
    plan: Plan,
    place: Callable[[Mapping[str, object]], Place | None],
    source: Collection[str] | None,
    *,
    strict_shell: bool,
) -> tuple[Finding, ...]:
    """Return what has no effect in a pipeline, and commands whose failures are hidden.

    ``place`` returns the line of a step; of none, that of the pipeline. ``source`` has the names of the project's
    files, None if they are not known. In a ``strict_shell`` no failure is hidden.
    """
    found = [Finding(message, place({})) for message in _of_triggers(triggers)]
    children = {job.step_key for job in plan.jobs if any(each.kind == "builds_in" for each in job.depends_on)}
    for step in _steps(definition):
        messages = [
            *(() if strict_shell else _of_command(step["cmd"])),
            *_of_image(step, children),
            *_of_time(step, plan.timeout_seconds),
            *_of_cache(step.get("cache"), source),
        ]
        found += [Finding(message, place(step), step=step["key"]) for message in messages]
    return tuple(found)


def _steps(definition: Any) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 - the IR
    """Yield the command steps of either shape; version "1" tells what has no effect by mistakes."""
    if definition["version"] == "1":
        return
    if definition.get("graph"):
        yield from (node["step"] for node in definition["graph"]["nodes"])
    else:
        yield from (step for step in definition["steps"] if step["type"] == "command")


def _of_triggers(triggers: Iterable[object]) -> Iterator[str]:
    for trigger in triggers:
        match trigger:
            case {"event": "push" | "pull_request", **rest}:
                for names in ("branches", "tags", "types"):
                    if rest.get(names) == []:
                        yield f"a trigger with an empty list of {names} never matches"
            case {"event": event}:
                yield f'there is no event "{event}" that triggers builds'


def _of_command(command: str) -> Iterator[str]:
    if hides_failures(command):
        yield _HIDES_FAILURES


def _of_image(step: Mapping[str, Any], children: Collection[str]) -> Iterator[str]:
    if step.get("image") and step["key"] in children:
        yield f"the image {step['image']} is not used: the step starts from the disk of its parent"


def _of_time(step: Mapping[str, Any], build_seconds: int | None) -> Iterator[str]:
    seconds = step.get("timeout_seconds")
    if seconds and build_seconds and seconds > build_seconds:
        yield f"its time-out of {seconds} s is never reached: the build ends after {build_seconds} s"


def _of_cache(policy: object, source: Collection[str] | None) -> Iterator[str]:
    match policy:
        case {"policy": "compose", "sub_policies": list(policies)}:
            for each in policies:
                yield from _of_cache(each, source)
        case {"policy": "on_change", "paths": []}:
            yield "on_change without files never changes the key of the cache"
        case {"policy": "on_change", "paths": list(paths)} if source is not None:
            for path in paths:
                if isinstance(path, str) and not _GLOB & set(path) and not _is_there(path, source):
                    yield f"on_change names {path}, which is not in the source: it never changes the key of the cache"
        case {"policy": "forever" | "ttl" | "compose", "key": str()} | {"policy": "none"} | {"key": str()}:
            return
        case {"policy": str()} if source is None:
            yield "it is never cached: its cache policy has no key"


def _is_there(path: str, source: Collection[str]) -> bool:
    """Tell whether a file or folder is in the source; a path that is not in normal form may be."""
    name = path.removeprefix("./").rstrip("/")
    return ".." in name or "//" in name or "/./" in name or any(f"{each}/".startswith(f"{name}/") for each in source)
