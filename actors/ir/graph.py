"""The graph shape: nodes, and edges between their indexes (pipeline-ir.md, "Graph shape")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.ir.definition import Definition, Dependency
from actors.ir.errors import IrError, shown
from actors.ir.ordering import Dependencies, cycles_first
from actors.ir.reading import Misfit, Reader, at, choice, environment, items, peek, record
from actors.ir.step import Step, continues, image, seconds, step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.ir.limits import Limits

__all__ = ["read_graph"]


@dataclass(frozen=True, slots=True)
class _Node:
    step: Step
    env: Mapping[str, str] = field(default_factory=dict)


def read_graph(document: Mapping[str, object], limits: Limits) -> Definition:
    """Read a document of the graph shape.

    Raises:
        Misfit, IrError: the first fault in document order. A cycle alone raises nothing.
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

    graph = record(_nodes, {"nodes": _node_list(limits)}, {"edges": items(edges.add)})
    with cycles_first(edges.keys, edges.dependencies):
        return record(make, {"graph": graph}, {"default_image": image, "timeout_seconds": seconds})(document)


def _nodes(nodes: Sequence[_Node], **_edges: object) -> Sequence[_Node]:
    return nodes


def _node_list(limits: Limits) -> Reader[Sequence[_Node]]:
    node = record(_Node, {"step": step(limits, {})}, {"env": environment(limits.max_env_bytes)})

    def read(value: object) -> Sequence[_Node]:
        if isinstance(value, list) and not value:
            raise Misfit("at least one step")
        if isinstance(value, list) and len(value) > limits.max_jobs:
            raise Misfit(f"at most {limits.max_jobs} steps")
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
            raise Misfit("[from, to, kind]")
        source, target, kind = at(0, _index, value[0]), at(1, _index, value[1]), at(2, _kind, value[2])
        lenient = value[3:] not in ([], [None]) and at(3, continues, value[3])
        builds_in = kind == "builds_in"
        nodes = range(len(self.keys))
        if source not in nodes or target not in nodes:
            verb = "builds in" if builds_in else "depends on"
            raise IrError("unknown_dependency", f"{self._name(target)} {verb} {self._name(source)}")
        if builds_in and self._parents.setdefault(target, source) != source:
            raise Misfit(f'at most one "builds_in" parent for step {shown(self.keys[target])}')
        known = self._depends_on[target].get(source)
        if known is not None:
            builds_in = builds_in or known.builds_in
            lenient = lenient and known.continue_on_failure
        self._depends_on[target][source] = Dependency(source, builds_in, lenient)

    def _name(self, index: int) -> str:
        if 0 <= index < len(self.keys):
            return f"step {shown(self.keys[index])}"
        return f"unknown step {shown(str(index))}"


def _index(value: object) -> int:
    if type(value) is not int:
        raise Misfit("the index of a node")
    return value


_kind = choice("builds_in", "depends_on")
