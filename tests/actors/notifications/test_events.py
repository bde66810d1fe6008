"""The events of a branch's builds: each change is told once, whatever the order of the ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.notifications.announcing import events_of
from storage import BuildEvent, BuildState, ToldEnd

FINISHED, FIRST, RECOVERED = BuildEvent.FINISHED, BuildEvent.FIRST_FAILURE, BuildEvent.RECOVERED
PASSED, FAILED, CANCELED = BuildState.PASSED, BuildState.FAILED, BuildState.CANCELED


@pytest.mark.parametrize(
    ("before", "number", "state", "event"),
    [
        (None, 1, FAILED, FIRST),
        (None, 1, PASSED, FINISHED),
        ((1, PASSED), 2, FAILED, FIRST),
        ((1, PASSED), 2, PASSED, FINISHED),
        ((1, FAILED), 2, FAILED, FINISHED),
        ((1, FAILED), 2, PASSED, RECOVERED),
        ((1, FAILED), 2, CANCELED, FINISHED),
        (None, 1, CANCELED, FINISHED),
        ((3, PASSED), 2, FAILED, FINISHED),
        ((3, FAILED), 2, PASSED, FINISHED),
        ((2, FAILED), 2, PASSED, RECOVERED),
        ((2, PASSED), 2, FAILED, FIRST),
        ((2, FAILED), 2, FAILED, FINISHED),
    ],
)
def test_the_event_follows_from_what_was_told_before(
    before: tuple[int, BuildState] | None, number: int, state: BuildState, event: BuildEvent
):
    events = events_of(number, state, before and ToldEnd(*before))
    assert (events[0], events[-1]) == (event, FINISHED)


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from([PASSED, FAILED, CANCELED])), max_size=30))
def test_failures_and_recoveries_take_turns(ends: list[tuple[int, BuildState]]):
    told: dict[int, BuildState] = {}
    changes = []
    for number, state in ends:
        last = max(told, default=None)
        changes += events_of(number, state, None if last is None else ToldEnd(last, told[last]))[:-1]
        if state is not CANCELED:
            told[number] = state
    assert changes == [FIRST, RECOVERED] * (len(changes) // 2) + [FIRST] * (len(changes) % 2)
