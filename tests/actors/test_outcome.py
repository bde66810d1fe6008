from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from actors import vms
from actors.outcome import DiskUse, Fault, disk_fault, ending_of_exit, ending_of_fault, fault_of
from actors.states import JobEvent
from storage import Job, JobState, Shape

GB = 2**30


def job(**changes: object) -> Job:
    plain = Job(
        id=1,
        uuid="0d4f9b1e-6f0f-4c57-8a39-0a8a6a6b9f52",
        build_id=1,
        position=0,
        step_key="test",
        name="test",
        command="make test",
        state=JobState.RUNNING,
        image=None,
        env={},
        shape=Shape(),
        timeout_seconds=None,
        network=True,
        retry_policy=None,
        soft_fail_policy=None,
        soft_failed=False,
        artifacts=(),
        secrets=(),
        cache_policy="none",
        cache_key=None,
        cache_hit=False,
        attempt=1,
        exit_code=None,
        error_code=None,
        error_message=None,
        depends_on=(),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        scheduled_at=None,
        not_before=None,
        started_at=None,
        finished_at=None,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_exit_0_passes():
    ending = ending_of_exit(0, job(), None)
    assert ending.event is JobEvent.PASSED
    assert ending.satisfies


def test_any_other_exit_fails_without_an_error_code():
    ending = ending_of_exit(3, job(), None)
    assert (ending.event, ending.exit_code, ending.error_code) == (JobEvent.FAILED, 3, None)
    assert not ending.satisfies


def test_a_command_killed_for_a_fault_fails_with_its_code_even_if_it_exits_0():
    ending = ending_of_exit(0, job(), Fault("disk_full", "the disk is full"))
    assert (ending.event, ending.error_code) == (JobEvent.FAILED, "disk_full")


def test_a_soft_failure_is_for_all_exit_codes_or_for_those_listed():
    assert ending_of_exit(3, job(soft_fail_policy={}), None).soft_failed
    assert ending_of_exit(3, job(soft_fail_policy={"exit_codes": [3]}), None).soft_failed
    assert not ending_of_exit(4, job(soft_fail_policy={"exit_codes": [3]}), None).soft_failed


def test_a_retry_policy_covers_its_exit_codes_up_to_its_limit():
    flaky = job(retry_policy={"limit": 2, "exit_codes": [7], "backoff_seconds": 5})
    assert ending_of_exit(7, flaky, None).event is JobEvent.RETRY
    assert ending_of_exit(8, flaky, None).event is JobEvent.FAILED
    assert ending_of_exit(7, dataclasses.replace(flaky, attempt=3), None).event is JobEvent.FAILED


def test_attempts_lost_to_the_service_do_not_count_against_the_policy():
    flaky = job(retry_policy={"limit": 1}, attempt=2)
    assert ending_of_exit(1, flaky, None, lost_before=1).event is JobEvent.RETRY
    assert ending_of_exit(1, flaky, None, lost_before=0).event is JobEvent.FAILED


def test_a_fault_of_the_service_is_retried_unbilled_until_the_retries_are_used_up():
    lost = Fault("vm_lost", "gone", service=True)
    again = ending_of_fault(lost, job(), lost_before=1, retries=2)
    assert (again.event, again.billable) == (JobEvent.RETRY, False)
    final = ending_of_fault(lost, job(), lost_before=2, retries=2)
    assert (final.event, final.error_code, final.billable) == (JobEvent.FAILED, "vm_lost", False)


def test_a_fault_of_the_caller_is_final_at_once():
    ending = ending_of_fault(Fault("image_not_found", "no such image"), job(), lost_before=0, retries=2)
    assert (ending.event, ending.error_code) == (JobEvent.FAILED, "image_not_found")


@pytest.mark.parametrize(
    ("error", "code", "service"),
    [
        (vms.ImageNotFound("x"), "image_not_found", False),
        (vms.SnapshotNotFound("x"), "snapshot_failed", False),
        (vms.SourceError("x"), "source_fetch_failed", False),
        (vms.GuestLost("x"), "vm_lost", False),
        (vms.VmLost("x"), "vm_lost", True),
        (vms.ConnectionLost("x"), "vm_lost", True),
        (vms.VmError("x"), "lease_failed", True),
        (ValueError("x"), "internal_error", False),
    ],
)
def test_each_error_of_a_step_has_its_code(error: Exception, code: str, service: bool):
    fault = fault_of(error)
    assert (fault.code, fault.service) == (code, service)


def test_a_job_that_passes_but_whose_disk_cannot_be_kept_fails():
    ending = ending_of_exit(0, job(), None).without_disk("no space")
    assert (ending.event, ending.error_code, ending.error_message) == (JobEvent.FAILED, "snapshot_failed", "no space")


def test_a_job_that_failed_anyway_keeps_its_own_reason():
    ending = ending_of_exit(1, job(), None)
    assert ending.without_disk("no space") == ending


def test_a_full_disk_of_the_job_or_of_the_host_is_a_fault():
    roomy, full = DiskUse(written=GB, free=100 * GB), DiskUse(written=20 * GB, free=100 * GB)
    assert disk_fault(roomy, Shape(), min_free=GB) is None
    assert (fault := disk_fault(full, Shape(), min_free=GB)) is not None
    assert fault.code == "disk_full"
    assert disk_fault(DiskUse(written=GB, free=GB // 2), Shape(), min_free=GB) is not None
    assert disk_fault(DiskUse(written=10, free=GB // 2), Shape(), min_free=GB) is None
