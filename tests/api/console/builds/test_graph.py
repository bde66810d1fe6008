"""The layout of a graph: layers, rows, folding, the critical path."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from api.console.builds.graph import NODE_HEIGHT, GraphEdge, GraphNode, critical_path, lay_out

DIAMOND = [GraphEdge(0, 1), GraphEdge(0, 2), GraphEdge(1, 3), GraphEdge(2, 3, disk=True)]


def nodes(*seconds: float) -> list[GraphNode]:
    return [GraphNode(position, f"job {position}", each) for position, each in enumerate(seconds)]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[GraphNode], list[GraphEdge]]:
    count = draw(st.integers(1, 30))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1])
    drawn = draw(st.sets(pairs, max_size=60)) if count > 1 else set()
    seconds = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return nodes(*seconds), [GraphEdge(*pair) for pair in sorted(drawn)]


def test_a_job_is_right_of_what_it_waits_for():
    placed = lay_out(nodes(1, 1, 1, 1), DIAMOND)
    assert [node.x for node in placed.nodes] == sorted(node.x for node in placed.nodes)
    assert placed.layers == 3
    assert placed.nodes[1].x == placed.nodes[2].x
    assert placed.nodes[0].y == placed.nodes[3].y == (placed.nodes[1].y + placed.nodes[2].y) / 2
    assert [line.disk for line in placed.lines] == [False, False, False, True]


@given(graphs())
def test_no_two_nodes_overlap_and_all_are_inside(graph: tuple[list[GraphNode], list[GraphEdge]]):
    placed = lay_out(*graph)
    columns: dict[float, list[float]] = {}
    for node in placed.nodes:
        assert 0 <= node.x < placed.width
        assert 0 <= node.y <= placed.height - NODE_HEIGHT
        columns.setdefault(node.x, []).append(node.y)
    for rows in columns.values():
        assert all(below - above > NODE_HEIGHT for above, below in pairwise(sorted(rows)))
    for edge in graph[1]:
        assert placed.nodes[edge.start].x < placed.nodes[edge.to].x


@given(graphs())
def test_folding_keeps_every_job_once(graph: tuple[list[GraphNode], list[GraphEdge]]):
    folded = lay_out(*graph, fold=True)
    assert sorted(position for node in folded.nodes for position in node.positions) == list(range(len(graph[0])))


def test_jobs_that_are_alike_share_a_node():
    edges = [GraphEdge(0, position) for position in range(1, 6)] + [GraphEdge(position, 6) for position in range(1, 6)]
    named = [GraphNode(position, f"test ({position})") for position in range(7)]
    folded = lay_out(named, edges, fold=True)
    assert [node.positions for node in folded.nodes] == [(0,), (1, 2, 3, 4, 5), (6,)]
    assert folded.nodes[1].name == "5 x test"
    assert len(folded.lines) == 2


def test_the_critical_path_took_longest():
    assert critical_path(nodes(1, 5, 2, 1), DIAMOND) == {0, 1, 3}
    assert critical_path(nodes(1, 2, 5, 0), DIAMOND) >= {0, 2}
    assert critical_path(nodes(0, 0, 0, 0), DIAMOND) == frozenset()
    assert lay_out([], []).nodes == ()


def test_lines_of_a_kind_are_one_path():
    placed = lay_out(nodes(1, 5, 2, 1), DIAMOND)
    strokes = dict(placed.strokes)
    assert sorted(strokes) == ["", "critical", "disk"]
    assert strokes["critical"].count("M") == 2
    assert sum(path.count("M") for path in strokes.values()) == len(DIAMOND)


def test_a_thousand_jobs_are_laid_out():
    chance = random.Random(1)
    edges = [GraphEdge(chance.randrange(max(0, to - 60), to), to) for to in range(1, 1000) for _ in range(2)]
    placed = lay_out(nodes(*range(1000)), edges)
    assert len(placed.nodes) == 1000


def test_the_cells_of_a_matrix_share_a_node_that_opens():
    edges = [*(GraphEdge(0, cell) for cell in (1, 2)), *(GraphEdge(cell, 3) for cell in (1, 2))]
    named = [GraphNode(0, "base"), *(GraphNode(cell, f"test ({cell})", matrix="test") for cell in (1, 2))]
    closed = lay_out([*named, GraphNode(3, "end")], edges)
    assert [(node.positions, node.name, node.matrix) for node in closed.nodes] == [
        ((0,), "base", ""),
        ((1, 2), "test", "test"),
        ((3,), "end", ""),
    ]
    assert len(closed.lines) == 2
    opened = lay_out([*named, GraphNode(3, "end")], edges, fold=True, opened=["test"])
    assert [node.name for node in opened.nodes] == ["base", "test (1)", "test (2)", "end"]


def test_an_edge_that_others_imply_is_left_out():
    three = [GraphNode(0, "a"), GraphNode(1, "b"), GraphNode(2, "c")]
    assert len(lay_out(three, [GraphEdge(0, 1), GraphEdge(1, 2), GraphEdge(0, 2)]).lines) == 2
    assert len(lay_out(three, [GraphEdge(0, 1), GraphEdge(1, 2), GraphEdge(0, 2, disk=True)]).lines) == 3
