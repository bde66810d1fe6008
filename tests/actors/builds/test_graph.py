from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.builds.graph import Graph
from actors.builds.states import JobEvent, Progress
from storage import Edge, EdgeKind, JobState
from tests.actors.builds.test_outcome import job

if TYPE_CHECKING:
    from collections.abc import Collection

    from storage import Build, Lease

FAILED, RUNNING, PENDING = Progress(JobState.FAILED), Progress(JobState.RUNNING), Progress(JobState.PENDING)


def graph(
    progress: list[Progress],
    *edges: tuple[int, int] | tuple[int, int, bool],
    only_after_failure: Collection[int] = (),
) -> Graph:
    """Return a graph of jobs 0, 1, 2 … with this progress; an edge (0, 1, True) forgives a failure of 0."""
    made = Graph(
        [job(id=number, only_after_failure=number in only_after_failure) for number in range(len(progress))],
        [Edge(edge[0], edge[1], EdgeKind.DEPENDS_ON, len(edge) == 3) for edge in edges],
    )
    for number, each in enumerate(progress):
        made[number].progress = each
    return made


def test_a_pending_job_is_ready_when_its_prerequisites_passed():
    passed = Progress(JobState.PASSED)
    assert graph([passed, RUNNING, PENDING], (0, 2), (1, 2)).readiness(2) is None
    assert graph([passed, passed, PENDING], (0, 2), (1, 2)).readiness(2) is JobEvent.READY


def test_a_pending_job_is_blocked_by_the_first_failure():
    """An edge that continues on failure makes it wait for the rest."""
    assert graph([FAILED, RUNNING, PENDING], (0, 2), (1, 2)).readiness(2) is JobEvent.BLOCKED
    assert graph([FAILED, RUNNING, PENDING], (0, 2, True), (1, 2)).readiness(2) is None


PASSED = Progress(JobState.PASSED)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([PASSED, RUNNING], None),
        ([FAILED, RUNNING], None),
        ([PASSED, PASSED], JobEvent.UNMET),
        ([PASSED, Progress(JobState.FAILED, soft_failed=True)], JobEvent.UNMET),
        ([PASSED, Progress(JobState.SKIPPED, skipped_by_condition=True)], JobEvent.UNMET),
        ([PASSED, FAILED], JobEvent.READY),
        ([PASSED, Progress(JobState.TIMED_OUT)], JobEvent.READY),
        ([PASSED, Progress(JobState.SKIPPED)], JobEvent.READY),
        ([PASSED, Progress(JobState.CANCELED)], JobEvent.READY),
    ],
)
def test_a_job_may_wait_for_a_failure(before: list[Progress], event: JobEvent | None):
    made = graph([*before, PENDING], (0, 2), (1, 2), only_after_failure={2})
    assert made.readiness(2) is event


def test_a_failure_that_any_end_satisfies_is_none():
    made = graph([FAILED, PASSED, PENDING], (0, 2, True), (1, 2), only_after_failure={2})
    assert made.readiness(2) is JobEvent.UNMET


def test_a_job_without_a_disk_to_start_from_is_skipped():
    made = Graph([job(id=0, step_key="base"), job(id=1)], [Edge(0, 1, EdgeKind.BUILDS_IN, True)])
    made[1].progress = PENDING
    made[0].progress = Progress(JobState.SKIPPED, skipped_by_condition=True)
    assert made.readiness(1) is JobEvent.UNMET
    assert made.why_unmet(1) == 'it starts from the disk of "base", which is skipped'
    made[0].progress = Progress(JobState.SKIPPED)
    assert made.readiness(1) is JobEvent.BLOCKED


def test_what_runs_only_after_a_failure_is_not_canceled_for_it():
    assert graph([FAILED, RUNNING, PENDING], (1, 2), only_after_failure={2}).to_cancel() == {1}


def test_a_job_that_is_not_pending_has_no_readiness():
    assert graph([FAILED, RUNNING], (0, 1)).readiness(1) is None


def test_a_jobs_parent_is_that_of_its_disk():
    made = Graph(
        [job(id=number, step_key=f"step-{number}") for number in range(3)],
        [Edge(0, 1, EdgeKind.BUILDS_IN, False), Edge(0, 2, EdgeKind.DEPENDS_ON, False)],
    )
    assert made.parent(1) == made[0].job
    assert made.parent(2) is None


def test_nothing_is_to_cancel_while_no_job_has_failed():
    assert graph([RUNNING, PENDING], (0, 1)).to_cancel() == set()
    assert graph([Progress(JobState.FAILED, soft_failed=True), RUNNING]).to_cancel() == set()
    assert graph([Progress(JobState.CANCELED), RUNNING]).to_cancel() == set()


def test_after_a_failure_all_unfinished_jobs_are_to_cancel():
    assert graph([FAILED, RUNNING, PENDING, Progress(JobState.PASSED)], (1, 2)).to_cancel() == {1, 2}
    assert graph([Progress(JobState.TIMED_OUT), RUNNING]).to_cancel() == {1}


def test_clean_ups_and_their_dependents_are_not_canceled():
    assert graph([FAILED, RUNNING, PENDING, PENDING], (1, 2, True), (2, 3)).to_cancel() == {1}


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
def test_a_failure_cancels_unfinished_jobs_except_spared_ones(
    drawn: tuple[Graph, list[tuple[int, int, bool]]],
):
    made, edges = drawn
    continuing: set[int] = set()
    for number in made:
        if any(forgiving or before in continuing for before, after, forgiving in edges if after == number):
            continuing.add(number)
    unfinished = {number for number in made if not made[number].progress.state.terminal}
    broken = any(made[number].progress.failed for number in made)
    assert made.to_cancel() == (unfinished - continuing if broken else set())


@given(graphs())
def test_what_is_ready_stays_so_when_a_prerequisite_is_forgiven(drawn: tuple[Graph, list[tuple[int, int, bool]]]):
    made, _ = drawn
    ready = {number for number in made if made.readiness(number) is JobEvent.READY}
    for number in made:
        made[number].progress = dataclasses.replace(made[number].progress, soft_failed=True)
    assert ready <= {number for number in made if made.readiness(number) is JobEvent.READY}


def sharing(*edges: Edge, only_after_failure: Collection[int] = ()) -> list[tuple[bool, bool]]:
    """Return for each job whether its workspace is wanted once it passed, and once it failed."""
    made = Graph([job(id=each, only_after_failure=each in only_after_failure) for each in range(4)], edges)
    found = [made.assignment(cast("Build", None), job(id=each), cast("Lease", None)) for each in range(4)]
    return [(each.workspace_takers, each.workspace_takers_after_failure) for each in found]


def test_a_workspace_is_wanted_by_those_that_may_take_it():
    waits, disk = EdgeKind.DEPENDS_ON, EdgeKind.BUILDS_IN
    no, passed, both = (False, False), (True, False), (True, True)
    chain = [Edge(0, 1, waits, False, True), Edge(1, 2, waits, False, True)]
    assert sharing(*chain) == [passed, passed, no, no]
    assert sharing(Edge(0, 1, waits, False, True), Edge(1, 2, waits, True, True)) == [both, both, no, no]
    assert sharing(*chain, only_after_failure=[2]) == [both, both, no, no]
    behind_disks = [Edge(0, 1, disk, False), Edge(1, 2, disk, False)]
    assert sharing(*behind_disks, Edge(2, 3, waits, False, True)) == [no, no, passed, no]
    assert sharing(*behind_disks, Edge(2, 3, waits, True, True)) == [both, both, both, no]
    assert sharing(Edge(0, 1, waits, False), Edge(1, 2, waits, False, True)) == [no, passed, no, no]
