"""Pipelines for the tests, in the IR's graph shape."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Graph:
    """A pipeline under construction: steps by key, in order, and the edges between them."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[list[Any]] = field(default_factory=list)
    timeout_seconds: int | None = None

    def step(
        self,
        key: str,
        cmd: str,
        *,
        builds_in: str | None = None,
        after: tuple[str, ...] = (),
        even_after_failure: bool = False,
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> Graph:
        """Add a step with its key as label; ``options`` are its other fields."""
        self.nodes.append({"step": {"key": key, "cmd": cmd, "label": key, **options}, "env": env or {}})
        for parent in after:
            edge: list[Any] = [self._index(parent), len(self.nodes) - 1, "depends_on"]
            if even_after_failure:
                edge.append({"continue_on_failure": True})
            self.edges.append(edge)
        if builds_in is not None:
            self.edges.append([self._index(builds_in), len(self.nodes) - 1, "builds_in"])
        return self

    def ir(self) -> str:
        """Return the IR document."""
        document: dict[str, Any] = {
            "version": "0",
            "graph": {"nodes": self.nodes, "edges": self.edges, "node_holes": [], "edge_property": "directed"},
        }
        if self.timeout_seconds is not None:
            document["timeout_seconds"] = self.timeout_seconds
        return json.dumps(document)

    def _index(self, key: str) -> int:
        return next(i for i, node in enumerate(self.nodes) if node["step"]["key"] == key)


def one(cmd: str, **options: Any) -> str:
    """Return the IR of a pipeline with a single step named ``only``."""
    return Graph().step("only", cmd, **options).ir()


def diamond(width: int) -> str:
    """Return the IR of a source, ``width`` jobs after it, and a sink after all of them."""
    graph = Graph().step("source", "true")
    for number in range(width):
        graph.step(f"middle-{number}", "true", after=("source",))
    return graph.step("sink", "true", after=tuple(f"middle-{number}" for number in range(width))).ir()
