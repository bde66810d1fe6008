from __future__ import annotations

from ci_daemon.terminal.states import STATE_STYLES
from storage import BuildState, JobState, LeaseState


def test_every_state_has_a_style():
    assert set(STATE_STYLES) == {*BuildState, *JobState, *LeaseState, "rendering", "held"}
