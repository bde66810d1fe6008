from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from actors.graph import Graph
from actors.states import JobEvent, Progress
from storage import Edge, EdgeKind, JobState
from tests.actors.test_outcome import job

FAILED, RUNNING, PENDING = Progress(JobState.FAILED), Progress(JobState.RUNNING), Progress(JobState.PENDING)


def graph(progress: list[Progress], *edges: tuple[int, int] | tuple[int, int, bool]) -> Graph:
    """Return a graph of jobs 0, 1, 2 … with this progress; an edge (0, 1, True) forgives a failure of 0."""
    made = Graph(
        [job(id=number) for number in range(len(progress))],
        [Edge(edge[0], edge[1], EdgeKind.DEPENDS_ON, len(edge) == 3) for edge in edges],
    )
    for number, each in enumerate(progress):
        made[number].progress = each
    return made


def test_a_pending_job_is_ready_when_all_that_it_waits_for_has_passed():
    passed = Progress(JobState.PASSED)
    assert graph([passed, RUNNING, PENDING], (0, 2), (1, 2)).prospect(2) is None
    assert graph([passed, passed, PENDING], (0, 2), (1, 2)).prospect(2) is JobEvent.READY


def test_a_pending_job_is_blocked_as_soon_as_one_failed_but_over_a_forgiving_edge_it_waits_for_the_rest():
    assert graph([FAILED, RUNNING, PENDING], (0, 2), (1, 2)).prospect(2) is JobEvent.BLOCKED
    assert graph([FAILED, RUNNING, PENDING], (0, 2, True), (1, 2)).prospect(2) is None


def test_what_is_not_pending_has_no_prospect():
    assert graph([FAILED, RUNNING], (0, 1)).prospect(1) is None


def test_a_jobs_parent_is_that_of_its_disk():
    made = Graph(
        [job(id=number, step_key=f"step-{number}") for number in range(3)],
        [Edge(0, 1, EdgeKind.BUILDS_IN, False), Edge(0, 2, EdgeKind.DEPENDS_ON, False)],
    )
    assert made.parent(1) == made[0].job
    assert made.parent(2) is None


def test_nothing_is_doomed_while_no_job_has_failed():
    assert graph([RUNNING, PENDING], (0, 1)).doomed() == set()
    assert graph([Progress(JobState.FAILED, soft_failed=True), RUNNING]).doomed() == set()
    assert graph([Progress(JobState.CANCELED), RUNNING]).doomed() == set()


def test_a_failure_dooms_what_is_not_over():
    assert graph([FAILED, RUNNING, PENDING, Progress(JobState.PASSED)], (1, 2)).doomed() == {1, 2}
    assert graph([Progress(JobState.TIMED_OUT), RUNNING]).doomed() == {1}


def test_what_is_there_for_failures_is_spared_with_all_that_comes_after_it():
    assert graph([FAILED, RUNNING, PENDING, PENDING], (1, 2, True), (2, 3)).doomed() == {1}


progress = st.builds(Progress, st.sampled_from(JobState), st.booleans())


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[tuple[int, int, bool]]]:
    states = draw(st.lists(progress, min_size=1, max_size=8))
    pairs = [(a, b) for b in range(len(states)) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = [(a, b, draw(st.booleans())) for a, b in chosen]
    made = Graph(
        [job(id=number) for number in range(len(states))],
        [Edge(a, b, EdgeKind.DEPENDS_ON, forgiving) for a, b, forgiving in edges],
    )
    for number, each in enumerate(states):
        made[number].progress = each
    return made, edges


@given(graphs())
def test_whoever_is_doomed_is_unfinished_and_neither_runs_over_a_forgiving_edge_nor_after_one_who_does(
    drawn: tuple[Graph, list[tuple[int, int, bool]]],
):
    made, edges = drawn
    spared: set[int] = set()
    for number in made:
        if any(forgiving or before in spared for before, after, forgiving in edges if after == number):
            spared.add(number)
    unfinished = {number for number in made if not made[number].progress.state.terminal}
    broken = any(made[number].progress.broken for number in made)
    assert made.doomed() == (unfinished - spared if broken else set())


@given(graphs())
def test_what_is_ready_stays_so_when_a_prerequisite_is_forgiven(drawn: tuple[Graph, list[tuple[int, int, bool]]]):
    made, _ = drawn
    ready = {number for number in made if made.prospect(number) is JobEvent.READY}
    for number in made:
        made[number].progress = dataclasses.replace(made[number].progress, soft_failed=True)
    assert ready <= {number for number in made if made.prospect(number) is JobEvent.READY}
