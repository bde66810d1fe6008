"""The graph shape."""

from __future__ import annotations

import pytest

from tests.actors.ir.documents import dependencies, graph, lines, node, planned, refusal

ABC = (node("a"), node("b"), node("c"))


def test_edges_point_from_prerequisite_to_dependent():
    assert dependencies(planned(graph(*ABC, edges=[[0, 1, "depends_on"], [1, 2, "builds_in"]]))) == {
        "a": "-",
        "b": "a",
        "c": "b*",
    }


@pytest.mark.parametrize("kinds", [("builds_in", "depends_on"), ("depends_on", "builds_in"), ("builds_in",) * 2])
def test_several_edges_of_a_pair_are_one_and_builds_in_wins(kinds: tuple[str, str]):
    assert dependencies(planned(graph(*ABC, edges=[[0, 1, kind] for kind in kinds])))["b"] == "a*"


def test_an_edge_may_continue_on_failure():
    edges = [
        [0, 2, "depends_on", {"continue_on_failure": True, "other": 1}],
        [1, 2, "depends_on", {"continue_on_failure": False}],
    ]
    assert dependencies(planned(graph(*ABC, edges=edges)))["c"] == "a? b"


@pytest.mark.parametrize("extra", [None, {}, {"continue_on_failure": None}])
def test_an_empty_fourth_element_says_nothing(extra: object):
    assert dependencies(planned(graph(*ABC, edges=[[0, 1, "depends_on", extra]])))["b"] == "a"


def test_a_pair_continues_on_failure_if_all_its_edges_do():
    lenient = {"continue_on_failure": True}
    assert dependencies(planned(graph(*ABC, edges=[[0, 1, "depends_on", lenient], [0, 1, "depends_on", lenient]])))[
        "b"
    ] == ("a?")
    assert dependencies(planned(graph(*ABC, edges=[[0, 1, "depends_on", lenient], [0, 1, "builds_in"]])))["b"] == "a*"
    assert dependencies(planned(graph(*ABC, edges=[[0, 1, "builds_in", lenient]])))["b"] == "a*?"


def test_a_node_builds_in_one_parent_at_most():
    edges = [[0, 2, "builds_in"], [0, 1, "builds_in"], [1, 2, "builds_in"]]
    assert refusal(graph(*ABC, edges=edges)) == (
        "invalid_ir",
        'graph.edges[2]: expected at most one "builds_in" parent for step "c"',
    )


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ([3, 1, "builds_in"], 'step "b" builds in unknown step "3"'),
        ([-1, 1, "builds_in"], 'step "b" builds in unknown step "-1"'),
        ([10**30, 1, "depends_on"], f'step "b" depends on unknown step "{10**30}"'),
        ([0, 3, "builds_in"], 'unknown step "3" builds in step "a"'),
        ([7, -2, "depends_on"], 'unknown step "-2" depends on unknown step "7"'),
    ],
)
def test_an_edge_to_or_from_nowhere_is_an_unknown_dependency(edge: list[object], message: str):
    assert refusal(graph(*ABC, edges=[[0, 1, "depends_on"], edge])) == ("unknown_dependency", message)


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ("0,1", "graph.edges[0]: expected [from, to, kind]"),
        ([0, 1], "graph.edges[0]: expected [from, to, kind]"),
        ([0, 1, "builds_in", {}, {}], "graph.edges[0]: expected [from, to, kind]"),
        (["0", 1, "builds_in"], "graph.edges[0][0]: expected the index of a node"),
        ([True, 1, "builds_in"], "graph.edges[0][0]: expected the index of a node"),
        ([0, 1.0, "builds_in"], "graph.edges[0][1]: expected the index of a node"),
        ([0, 1, "blocks"], 'graph.edges[0][2]: expected "builds_in" or "depends_on"'),
        ([0, 1, ["builds_in"]], 'graph.edges[0][2]: expected "builds_in" or "depends_on"'),
        ([0, 1, "builds_in", True], "graph.edges[0][3]: expected an object"),
        (
            [0, 1, "depends_on", {"continue_on_failure": 1}],
            "graph.edges[0][3].continue_on_failure: expected true or false",
        ),
    ],
)
def test_a_malformed_edge_is_refused_with_its_path(edge: object, message: str):
    assert refusal(graph(*ABC, edges=[edge])) == ("invalid_ir", message)


def test_the_image_is_the_disks_else_the_steps_or_documents():
    document = graph(
        node("own", image="debian:12"),
        node("default"),
        node("child", image="debian:13"),
        node("after", image=None),
        edges=[[0, 2, "builds_in"], [0, 3, "depends_on"]],
        default_image="ubuntu:24.04",
    )
    assert [job.image for job in planned(document).jobs] == ["debian:12", "ubuntu:24.04", "debian:12", "ubuntu:24.04"]
    del document["default_image"]
    assert [job.image for job in planned(document).jobs] == ["debian:12", None, "debian:12", None]


def test_only_the_env_of_the_node_counts():
    document = graph({**node("a", env={"A": "node"}), "step": {"key": "a", "cmd": "true", "env": {"A": "step"}}})
    document["env"] = {"B": "document"}
    assert planned(document).jobs[0].env == {"A": "node"}


def test_env_and_edges_may_be_left_out_or_null():
    step = {"step": {"key": "a", "cmd": "true"}}
    assert lines(planned({"version": "0", "graph": {"nodes": [step]}})) == ["a | true | - | -"]
    assert lines(planned({"version": "0", "graph": {"nodes": [{**step, "env": None}], "edges": None}})) == [
        "a | true | - | -"
    ]


def test_edges_may_stand_before_the_nodes():
    document = {"version": "0", "graph": {"edges": [[1, 0, "depends_on"]], "nodes": [node("a"), node("b")]}}
    assert lines(planned(document)) == ["b | true | - | -", "a | true | - | b"]
    document = {"version": "0", "graph": {"edges": [[2, 0, "depends_on"]], "nodes": [node("a"), node("b")]}}
    assert refusal(document) == ("unknown_dependency", 'step "a" depends on unknown step "2"')


@pytest.mark.parametrize(
    ("graph_value", "message"),
    [
        ([], "graph: expected an object"),
        ({}, "graph.nodes: expected a list"),
        ({"nodes": None}, "graph.nodes: expected a list"),
        ({"nodes": {}}, "graph.nodes: expected a list"),
        ({"nodes": []}, "graph.nodes: expected at least one step"),
        ({"nodes": ["a"]}, "graph.nodes[0]: expected an object"),
        ({"nodes": [{}]}, "graph.nodes[0].step: expected an object"),
        ({"nodes": [{"step": "a"}]}, "graph.nodes[0].step: expected an object"),
        ({"nodes": [node("a")], "edges": {}}, "graph.edges: expected a list"),
    ],
)
def test_a_malformed_graph_is_refused_with_its_path(graph_value: object, message: str):
    assert refusal({"version": "0", "graph": graph_value}) == ("invalid_ir", message)


def test_a_disks_image_is_inherited_in_any_document_order():
    document = graph(
        node("grandchild"),
        node("child"),
        node("root", image="debian:13"),
        edges=[[1, 0, "builds_in"], [2, 1, "builds_in"]],
    )
    assert [job.image for job in planned(document).jobs] == ["debian:13"] * 3
