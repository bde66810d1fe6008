"""Keys of a pipeline IR that have no effect (pipeline-ir.md, "Validation"). Pure.

A build is made all the same; its record, `ci-daemon lint` and `ci-daemon render` name them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.step import RUNNER_ARGS
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_MOST = 100
_MAX_NAME_CHARS = 80
_MAX_DEPTH = 20

_STEP = frozenset({"key", "cmd", "label", "cache", "timeout_seconds", "image", "runner", "runner_args"})
KNOWN_KEYS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "graph document": frozenset({"version", "timeout_seconds", "default_image", "graph", "steps"}),
        "flat document": frozenset({"version", "timeout_seconds", "default_image", "graph", "steps", "env"}),
        "graph": frozenset({"nodes", "edges", "node_holes", "edge_property"}),
        "node": frozenset({"step", "env"}),
        "step of a node": _STEP,
        "command": _STEP | {"type", "env", "builds_in"},
        "wait": frozenset({"type", "continue_on_failure"}),
        "edge": frozenset({"continue_on_failure"}),
        "cache": frozenset({"policy", "key", "env_keys", "duration_seconds", "paths", "sub_policies"}),
        "runner_args": RUNNER_ARGS,
        "retry": frozenset({"limit", "exit_codes", "backoff_seconds"}),
        "soft_fail": frozenset({"exit_codes"}),
    }
)
"""The keys of each kind of object, also those that only the language's own tools read."""

_FOLDER = 'begin "cmd" with "cd FOLDER || exit"'
_OTHER_WORDS = MappingProxyType(
    {
        "cwd": _FOLDER,
        "working_directory": _FOLDER,
        "workdir": _FOLDER,
        "command": 'did you mean "cmd"?',
        "run": 'did you mean "cmd"?',
        "script": 'did you mean "cmd"?',
        "name": 'did you mean "label"?',
        "environment": 'did you mean "env"?',
        "variables": 'did you mean "env"?',
        "timeout": 'did you mean "timeout_seconds"?',
        "timeout_minutes": 'did you mean "timeout_seconds"?',
        "allow_failure": 'did you mean "soft_fail" in "runner_args"?',
        "continue_on_error": 'did you mean "soft_fail" in "runner_args"?',
        "memory": 'did you mean "memory_gb" in "runner_args"?',
        "disk": 'did you mean "disk_gb" in "runner_args"?',
        "depends_on": 'an edge or a step of the type "wait" gives the order',
        "needs": 'an edge or a step of the type "wait" gives the order',
    }
)
"""Words of other systems, and of the language, for what an IR says in another way."""


@immutable
class UnknownKey:
    """A key that has no effect: its path in the document, a sentence, and the key of its step."""

    path: tuple[str | int, ...]
    message: str
    step: str | None = None

    def __str__(self) -> str:
        return self.message if self.step is None else f"step {quoted(self.step)}: {self.message}"


def unknown_keys(document: Mapping[str, object]) -> tuple[UnknownKey, ...]:
    """Return the keys without effect of a valid document, in its order, at most a hundred."""
    found: list[UnknownKey] = []
    for each in _of_document(document):
        found.append(each)
        if len(found) == _MOST:
            break
    return tuple(found)


def _of_document(document: Mapping[str, object]) -> Iterator[UnknownKey]:
    graph = document.get("graph")
    yield from _unknown(document, "flat document" if graph is None else "graph document", ())
    if isinstance(graph, dict):
        yield from _of_graph(graph)
    else:
        for index, step in enumerate(_items(document.get("steps"))):
            if step.get("type") == "wait":
                yield from _unknown(step, "wait", ("steps", index))
            else:
                yield from _of_step(step, "command", ("steps", index))


def _of_graph(graph: Mapping[str, object]) -> Iterator[UnknownKey]:
    yield from _unknown(graph, "graph", ("graph",))
    for index, node in enumerate(_items(graph.get("nodes"))):
        path = "graph", "nodes", index
        yield from _unknown(node, "node", path)
        step = node.get("step")
        if isinstance(step, dict):
            yield from _of_step(step, "step of a node", (*path, "step"))
    edges = graph.get("edges")
    for index, edge in enumerate(edges if isinstance(edges, list) else ()):
        if isinstance(edge, list) and isinstance(edge[-1], dict):
            yield from _unknown(edge[-1], "edge", ("graph", "edges", index, len(edge) - 1))


def _items(value: object) -> Iterator[Mapping[str, object]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _of_step(step: Mapping[str, object], kind: str, path: tuple[str | int, ...]) -> Iterator[UnknownKey]:
    key = step.get("key")
    name = key if isinstance(key, str) else None
    yield from _unknown(step, kind, path, step=name)
    if step.get("runner") is not None:
        place = _where(path, "runner", name)
        message = f"the key {place} has no effect: each step runs in a VM of this service"
        yield UnknownKey((*path, "runner"), message, name)
    yield from _of_cache(step.get("cache"), (*path, "cache"), name)
    arguments = step.get("runner_args")
    if isinstance(arguments, dict):
        below = *path, "runner_args"
        yield from _unknown(arguments, "runner_args", below, step=name)
        for kind_of_value in ("retry", "soft_fail"):
            value = arguments.get(kind_of_value)
            if isinstance(value, dict):
                yield from _unknown(value, kind_of_value, (*below, kind_of_value), step=name)


def _of_cache(cache: object, path: tuple[str | int, ...], step: str | None, depth: int = 0) -> Iterator[UnknownKey]:
    if not isinstance(cache, dict) or depth > _MAX_DEPTH:
        return
    yield from _unknown(cache, "cache", path, step=step)
    for index, each in enumerate(_items(cache.get("sub_policies"))):
        yield from _of_cache(each, (*path, "sub_policies", index), step, depth + 1)


def _unknown(
    value: Mapping[str, object], kind: str, path: tuple[str | int, ...], *, step: str | None = None
) -> Iterator[UnknownKey]:
    """Yield the keys of an object that its kind does not have."""
    for name in value:
        if name not in KNOWN_KEYS[kind] and not (kind == "step of a node" and name == "type"):
            hint = _hint(name, kind)
            message = f"the key {_where(path, name, step)} has no effect"
            yield UnknownKey((*path, name), f"{message}: {hint}" if hint else message, step)


def _where(path: tuple[str | int, ...], name: str, step: str | None) -> str:
    """Return the place of a key; in a step it begins there."""
    begin = 0
    if step is not None:
        begin = path.index("step") + 1 if "step" in path else 2
    shown = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"
    parts = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in (*path[begin:], shown))
    return quoted(parts.removeprefix("."))


def _hint(name: str, kind: str) -> str:
    """Return what to write instead, empty if nothing is near."""
    known = KNOWN_KEYS[kind]
    if kind in {"command", "step of a node"}:
        if name in RUNNER_ARGS:
            return f'it belongs in "runner_args" of the step: "runner_args": {{"{name}": …}}'
        if name == "env":
            return 'it belongs beside the "step", in the node'
        if name == "builds_in":
            return 'an edge of the kind "builds_in" says it'
    if kind == "runner_args" and name in _STEP | {"env", "builds_in"}:
        return 'it belongs in the step, beside "runner_args"'
    if kind == "graph document" and name == "env":
        return 'it belongs in each node, as "env"'
    other = _OTHER_WORDS.get(name) if kind in {"command", "step of a node", "runner_args"} else None
    return other or _nearest(name, known)


def _nearest(name: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - hardly a pipeline has such a key

    near = get_close_matches(name[:_MAX_NAME_CHARS].lower(), sorted(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else ""
