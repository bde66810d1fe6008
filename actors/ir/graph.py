"""The graph shape: nodes, and edges between their indexes (pipeline-ir.md, "Graph shape")."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.ordering import Definition, Dependencies, dependent_items
from actors.ir.readers import InvalidValue, Reader, at, choice, environment, items, peek, record
from actors.ir.step import CommandStep, continues, image, seconds, step
from storage import BuildErrorCode, Dependency, EdgeKind, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.ir.settings import IrSettings


@immutable
class _Node:
    step: CommandStep
    env: Mapping[str, str] = field(default_factory=dict)


def read_graph(document: Mapping[str, object], limits: IrSettings) -> Definition:
    """Read a document of the graph shape.

    Raises:
        InvalidValue: all faults in document order, also cycles.
    """
    nodes = peek(document, "graph", "nodes")
    edges = _Edges([peek(node, "step", "key") for node in nodes] if isinstance(nodes, list) else [])

    def make(
        graph: Sequence[_Node], default_image: str | None = None, timeout_seconds: int | None = None
    ) -> Definition:
        jobs = (
            node.step.job(node.env, default_image, depends_on)
            for node, depends_on in zip(graph, edges.dependencies(), strict=True)
        )
        return Definition(tuple(jobs), timeout_seconds)

    graph = record(
        _nodes, {"nodes": _node_list(limits)}, {"edges": dependent_items(edges.add, edges.keys, edges.dependencies)}
    )
    return record(make, {"graph": graph}, {"default_image": image, "timeout_seconds": seconds})(document)


def _nodes(nodes: Sequence[_Node], **_edges: object) -> Sequence[_Node]:
    return nodes


def _node_list(limits: IrSettings) -> Reader[Sequence[_Node]]:
    node = record(_Node, {"step": step(limits, {})}, {"env": environment(limits.max_env_bytes)})

    def read(value: object) -> Sequence[_Node]:
        if isinstance(value, list) and not value:
            raise InvalidValue("at least one step")
        if isinstance(value, list) and len(value) > limits.max_jobs:
            raise InvalidValue(f"at most {limits.max_jobs} steps")
        return items(node)(value)

    return read


class _Edges:
    """Reader of edges, grouped by dependent.

    Edges between the same two nodes become one dependency: ``builds_in`` if any of them is, ``continue_on_failure``
    only if all of them are.
    """

    def __init__(self, keys: Sequence[object]) -> None:
        self.keys = keys
        self._depends_on: list[dict[int, Dependency]] = [{} for _ in keys]
        self._parents: dict[int, int] = {}

    def dependencies(self) -> Dependencies:
        """Return each node's dependencies read so far, sorted by position."""
        return [tuple(sources[source] for source in sorted(sources)) for sources in self._depends_on]

    def add(self, value: object) -> None:
        """Read one edge."""
        if not isinstance(value, list) or len(value) not in {3, 4}:
            raise InvalidValue("[from, to, kind]")
        source, target = at(0, _index, value[0]), at(1, _index, value[1])
        kind = EdgeKind(at(2, _kind, value[2]))
        lenient = value[3:] not in ([], [None]) and at(3, continues, value[3])
        nodes = range(len(self.keys))
        if source not in nodes or target not in nodes:
            verb = "builds in" if kind is EdgeKind.BUILDS_IN else "depends on"
            message = f"{self._name(target)} {verb} {self._name(source)}"
            raise InvalidValue(message, BuildErrorCode.UNKNOWN_DEPENDENCY)
        if kind is EdgeKind.BUILDS_IN and self._parents.setdefault(target, source) != source:
            raise InvalidValue(f'at most one "builds_in" parent for step {quoted(self.keys[target])}')
        known = self._depends_on[target].get(source)
        if known is not None:
            kind = EdgeKind.BUILDS_IN if EdgeKind.BUILDS_IN in {kind, known.kind} else kind
            lenient = lenient and known.continue_on_failure
        self._depends_on[target][source] = Dependency(source, kind, lenient)

    def _name(self, index: int) -> str:
        if 0 <= index < len(self.keys):
            return f"step {quoted(self.keys[index])}"
        return f"unknown step {quoted(str(index))}"


def _index(value: object) -> int:
    if type(value) is not int:
        raise InvalidValue("the index of a node")
    return value


_kind = choice(*EdgeKind)
