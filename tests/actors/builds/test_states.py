from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.builds.states import JobEvent, Progress, blocks, next_state, roll_up, satisfies
from storage import BuildState, JobState

TERMINAL = [state for state in JobState if state.terminal]
LATE = [event for event in JobEvent if event is not JobEvent.RERUN]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(TERMINAL, LATE)))
def test_nothing_follows_a_terminal_state(state: JobState, event: JobEvent):
    assert next_state(state, event) is None


@pytest.mark.parametrize("state", JobState)
def test_only_a_retry_of_the_build_follows_a_terminal_state(state: JobState):
    assert next_state(state, JobEvent.RERUN) is (JobState.PENDING if state.terminal else None)


@pytest.mark.parametrize(
    ("state", "event", "target"),
    [
        ("pending", JobEvent.READY, "scheduled"),
        ("pending", JobEvent.BLOCKED, "skipped"),
        ("pending", JobEvent.CANCEL, "canceled"),
        ("scheduled", JobEvent.CANCEL, "canceled"),
        ("scheduled", JobEvent.CACHE_HIT, "passed"),
        ("scheduled", JobEvent.QUEUE_TIMEOUT, "timed_out"),
        ("scheduled", JobEvent.GRANTED, "assigned"),
        ("assigned", JobEvent.STARTED, "running"),
        ("running", JobEvent.PASSED, "passed"),
        ("running", JobEvent.FAILED, "failed"),
        ("running", JobEvent.STEP_TIMEOUT, "timing_out"),
        ("assigned", JobEvent.CANCEL, "canceling"),
        ("running", JobEvent.CANCEL, "canceling"),
        ("timing_out", JobEvent.DEAD, "timed_out"),
        ("canceling", JobEvent.DEAD, "canceled"),
        ("assigned", JobEvent.RETRY, "scheduled"),
        ("running", JobEvent.RETRY, "scheduled"),
        ("assigned", JobEvent.FAILED, "failed"),
        ("pending", JobEvent.BUILD_TIMEOUT, "timed_out"),
        ("scheduled", JobEvent.BUILD_TIMEOUT, "timed_out"),
        ("running", JobEvent.BUILD_TIMEOUT, "timing_out"),
    ],
)
def test_every_row_of_the_table(state: str, event: JobEvent, target: str):
    assert next_state(JobState(state), event) is JobState(target)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("pending", JobEvent.GRANTED),
        ("running", JobEvent.QUEUE_TIMEOUT),
        ("scheduled", JobEvent.PASSED),
        ("canceling", JobEvent.PASSED),
    ],
)
def test_other_pairs_are_dropped(state: str, event: JobEvent):
    assert next_state(JobState(state), event) is None


def test_passed_and_soft_failed_satisfy_a_prerequisite():
    assert satisfies(Progress(JobState.PASSED), continue_on_failure=False)
    assert satisfies(Progress(JobState.FAILED, soft_failed=True), continue_on_failure=False)
    assert not satisfies(Progress(JobState.FAILED), continue_on_failure=False)
    assert not satisfies(Progress(JobState.RUNNING), continue_on_failure=False)


@pytest.mark.parametrize("state", list(JobState))
def test_over_a_forgiving_edge_any_terminal_state_satisfies(state: JobState):
    assert satisfies(Progress(state), continue_on_failure=True) is state.terminal
    assert not blocks(Progress(state), continue_on_failure=True)


@pytest.mark.parametrize("state", ["failed", "timed_out", "skipped", "canceled"])
def test_what_ended_without_satisfying_blocks(state: str):
    assert blocks(Progress(JobState(state)), continue_on_failure=False)


def test_the_build_of_waiting_jobs_is_scheduled():
    assert roll_up([Progress(JobState.SCHEDULED), Progress(JobState.PENDING)], cancel_requested=False) == "scheduled"


def test_one_job_past_scheduled_makes_the_build_running():
    """This holds even while that job waits for its retry."""
    waiting = Progress(JobState.PENDING)
    assert roll_up([Progress(JobState.ASSIGNED), waiting], cancel_requested=False) == "running"
    assert roll_up([Progress(JobState.SCHEDULED, attempt=1), waiting], cancel_requested=False) == "running"


def test_one_failure_makes_the_build_failing_then_failed():
    failed = Progress(JobState.FAILED)
    assert roll_up([failed, Progress(JobState.RUNNING)], cancel_requested=False) == "failing"
    assert roll_up([failed, Progress(JobState.PASSED)], cancel_requested=False) == "failed"


def test_a_soft_failure_does_not_fail_the_build():
    assert roll_up([Progress(JobState.FAILED, soft_failed=True)], cancel_requested=False) == "passed"


def test_a_timed_out_job_fails_the_build():
    assert roll_up([Progress(JobState.TIMED_OUT)], cancel_requested=False) == "failed"


def test_a_cancel_outranks_failures():
    failed, running = Progress(JobState.FAILED), Progress(JobState.RUNNING)
    assert roll_up([failed, running], cancel_requested=True) == "canceling"
    assert roll_up([failed, Progress(JobState.CANCELED)], cancel_requested=True) == "canceled"


progress = st.builds(Progress, st.sampled_from(JobState), st.booleans(), st.integers(0, 3))


@given(st.lists(progress, min_size=1), st.booleans())
def test_a_build_is_over_exactly_when_all_its_jobs_are(jobs: list[Progress], cancel_requested: bool):
    state = roll_up(jobs, cancel_requested=cancel_requested)
    assert state.terminal == all(job.state.terminal for job in jobs)
    if state is BuildState.PASSED:
        assert not any(job.failed for job in jobs)


def test_a_job_waits_or_has_a_vm_or_has_ended():
    for state in JobState:
        assert [state.waiting, state.has_vm, state.terminal].count(True) == 1, state
