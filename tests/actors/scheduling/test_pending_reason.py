from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from actors.scheduling.capacity import Capacity, Load
from actors.scheduling.pending_reason import NoRoom, Waiting, back_off
from storage import JobState, Shape
from tests.actors.builds.test_outcome import job

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LOAD = Load.of([Shape(4, 4, 4)] * 2)
FULL = NoRoom(None, Capacity(vms=2).shortage(LOAD, Shape()))  # type: ignore[arg-type] # the capacity is too small, so never None
LARGE = NoRoom(7, Capacity(cpu=9).shortage(LOAD, Shape()))  # type: ignore[arg-type] # the capacity is too small, so never None


@pytest.mark.parametrize(
    ("waiting", "why"),
    [
        (Waiting(), "waiting for a VM"),
        (Waiting(admission="it is night"), "waiting for a VM: it is night"),
        (Waiting(host=FULL), "waiting for a VM: host is full (2 of 2)"),
        (Waiting(host=LARGE), "waiting for a VM: 8 of 9 vCPUs are taken, it needs 2"),
        (Waiting(organizations={1: FULL}), "waiting for a VM: its organization has all 2 VMs that it may have"),
        (Waiting(organizations={1: LARGE}), "waiting for a VM: its organization has 8 of 9 vCPUs, it needs 2"),
        (Waiting(host=FULL, organizations={2: LARGE}), "waiting for a VM: host is full (2 of 2)"),
        (Waiting(admission="it is night", host=FULL, organizations={1: FULL}), "waiting for a VM: it is night"),
    ],
)
def test_the_next_job_is_told_what_it_lacks(waiting: Waiting, why: str):
    assert waiting.reason(7, 1) == why


def test_who_waits_behind_another_is_told_what_that_one_needs():
    assert Waiting(host=LARGE).reason(8, 1) == "waiting for a VM: 8 of 9 vCPUs are taken, the job before it needs 2"
    own = Waiting(organizations={1: LARGE})
    assert own.reason(8, 1) == "waiting for a VM: its organization has 8 of 9 vCPUs, the job before it needs 2"


@pytest.mark.parametrize(("left", "seconds"), [(30.0, 30), (29.2, 30), (0.1, 1), (-3.0, 1)])
def test_who_backs_off_is_told_for_how_long(left: float, seconds: int):
    waits = job(state=JobState.SCHEDULED, attempt=1, not_before=NOW + timedelta(seconds=left))
    assert back_off(waits, NOW) == f"waiting {seconds} s before attempt 2"


def test_who_does_not_back_off_is_told_nothing():
    assert back_off(job(state=JobState.SCHEDULED), NOW) is None
