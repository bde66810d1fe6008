"""The order of a plan, and the cycles that have no order."""

from __future__ import annotations

import itertools
import json
import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ir import IrSettings, Plan, parse, plan
from tests.actors.ir.documents import command, flat, graph, node, planned, refusal, wait

Edges = list[tuple[int, int]]


def of_edges(count: int, edges: Edges) -> dict[str, object]:
    return graph(*(node(str(index)) for index in range(count)), edges=[[*edge, "depends_on"] for edge in edges])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    """Draw any directed graph, with cycles or without."""
    count = draw(st.integers(1, 9))
    index = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(index, index), max_size=16))


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    """Draw a graph without cycles whose document order is not its topological order."""
    count, edges = draw(graphs())
    place = draw(st.permutations(range(count)))
    return count, [(place[min(edge)], place[max(edge)]) for edge in edges if edge[0] != edge[1]]


def smallest_order(count: int, edges: Edges) -> list[int]:
    """Return the order that always takes the lowest free index: a slow reference for the plan."""
    order: list[int] = []
    while len(order) < count:
        free = (i for i in range(count) if i not in order and all(a in order for a, b in edges if b == i))
        order.append(next(free))
    return order


def reaches_itself(count: int, edges: Edges) -> bool:
    reached = {index: {b for a, b in edges if a == index} for index in range(count)}
    for _ in range(count):
        for index in range(count):
            reached[index] |= {further for near in reached[index] for further in reached[near]}
    return any(index in reached[index] for index in range(count))


@given(acyclic_graphs())
def test_the_order_is_topological_then_that_of_the_document(drawn: tuple[int, Edges]):
    jobs = planned(of_edges(*drawn)).jobs
    assert [int(job.step_key) for job in jobs] == smallest_order(*drawn)
    for position, job in enumerate(jobs):
        sources = [dependency.position for dependency in job.depends_on]
        assert sources == sorted(set(sources))
        assert all(source < position for source in sources)
        assert {int(jobs[source].step_key) for source in sources} == {a for a, b in drawn[1] if b == int(job.step_key)}


@given(graphs())
def test_a_cycle_is_found_exactly_if_there_is_one(drawn: tuple[int, Edges]):
    document = of_edges(*drawn)
    if not reaches_itself(*drawn):
        assert len(planned(document).jobs) == drawn[0]
        return
    code, message = refusal(document)
    assert code == "cycle"
    assert re.fullmatch(r'dependency cycle through "\d"( -> "\d")+', message)
    keys = [int(key) for key in re.findall(r'"(\d)"', message)]
    assert keys[0] == keys[-1]
    assert len(set(keys)) == len(keys) - 1
    assert all(edge in drawn[1] for edge in itertools.pairwise(keys))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 0)], '"0" -> "0"'),
        ([(0, 1), (1, 0)], '"0" -> "1" -> "0"'),
        ([(0, 1), (1, 2), (2, 0)], '"0" -> "1" -> "2" -> "0"'),
        ([(0, 1), (1, 2), (2, 3), (3, 1), (2, 1)], '"1" -> "2" -> "1"'),
    ],
)
def test_a_cycle_is_shown_by_its_shortest_path(edges: Edges, message: str):
    assert refusal(of_edges(4, edges)) == ("cycle", f"dependency cycle through {message}")


def test_steps_of_the_flat_shape_can_loop_too():
    assert refusal(flat(command("a", builds_in="a"))) == ("cycle", 'dependency cycle through "a" -> "a"')
    mutual = (command("a", builds_in="b"), command("b", builds_in="a"))
    assert refusal(flat(*mutual)) == ("cycle", 'dependency cycle through "a" -> "b" -> "a"')
    over_a_wait = (command("a", builds_in="b"), wait(), command("b"))
    assert refusal(flat(*over_a_wait)) == ("cycle", 'dependency cycle through "a" -> "b" -> "a"')


def test_a_long_cycle_is_shortened():
    code, message = refusal(of_edges(1000, [(index, (index + 1) % 1000) for index in range(1000)]))
    assert code == "cycle"
    assert message == (
        'dependency cycle through "0" -> "1" -> "2" -> "3" -> "4" -> "5" -> "6" -> "7" -> "8" -> (991 more) -> "0"'
    )


def seconds_for(document: object) -> tuple[float, Plan]:
    text = json.dumps(document)
    began = time.thread_time()
    result = plan(parse(text, IrSettings()))
    return time.thread_time() - began, result


def test_1000_jobs_with_10000_edges_are_planned_in_milliseconds():
    randomness = random.Random(7)
    place = randomness.sample(range(1000), 1000)
    edges: set[tuple[int, int]] = set()
    while len(edges) < 10_000:
        first, second = sorted(randomness.sample(range(1000), 2))
        edges.add((place[first], place[second]))
    seconds, result = seconds_for(of_edges(1000, list(edges)))
    assert sum(len(job.depends_on) for job in result.jobs) == 10_000
    assert seconds < 1, "about 35 ms on two slow cores: this is another order of growth"


def test_a_wait_between_two_halves_costs_no_more_than_the_jobs():
    commands = [command(str(index)) for index in range(1000)]
    seconds, result = seconds_for(flat(*commands[:500], wait(), *commands[500:]))
    assert sum(len(job.depends_on) for job in result.jobs) == 250_000
    assert len({id(job.depends_on) for job in result.jobs}) == 2
    assert seconds < 1, "about 15 ms on two slow cores: this is another order of growth"
