from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import vms
from actors.builds.outcome import (
    AttemptResult,
    DiskUse,
    JobFailure,
    disk_failure,
    failure_of,
    may_have_filled,
    result_of_exit,
    result_of_failure,
    timeout_on_record,
)
from actors.builds.states import JobEvent
from storage import Job, JobErrorCode, JobState, Outcome, Shape

GB = 2**30


def job(**changes: object) -> Job:
    plain = Job(
        id=1,
        uuid="0d4f9b1e-6f0f-4c57-8a39-0a8a6a6b9f52",
        build_id=1,
        organization_id=1,
        position=0,
        only_after_failure=False,
        matrix_job=None,
        matrix=None,
        files={},
        keep={},
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
        attempts_before=0,
        exit_code=None,
        error_code=None,
        error_message=None,
        depends_on=(),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        scheduled_at=None,
        not_before=None,
        awaited_image=None,
        started_at=None,
        finished_at=None,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_exit_0_passes():
    result = result_of_exit(0, job(), None)
    assert result.event is JobEvent.PASSED
    assert result.satisfies


def test_any_other_exit_fails_without_an_error_code():
    result = result_of_exit(3, job(), None)
    assert (result.event, result.outcome.exit_code, result.outcome.error_code) == (JobEvent.FAILED, 3, None)
    assert not result.satisfies


def test_a_command_killed_for_a_fault_fails_even_with_exit_0():
    result = result_of_exit(0, job(), JobFailure(JobErrorCode.DISK_FULL, "the disk is full"))
    assert (result.event, result.outcome.error_code) == (JobEvent.FAILED, "disk_full")


def test_a_soft_failure_is_of_all_exit_codes_or_of_listed_ones():
    assert result_of_exit(3, job(soft_fail_policy={}), None).soft_failed
    assert result_of_exit(3, job(soft_fail_policy={"exit_codes": [3]}), None).soft_failed
    assert not result_of_exit(4, job(soft_fail_policy={"exit_codes": [3]}), None).soft_failed


def test_a_retry_policy_covers_its_exit_codes_up_to_its_limit():
    flaky = job(retry_policy={"limit": 2, "exit_codes": [7], "backoff_seconds": 5})
    assert result_of_exit(7, flaky, None) == AttemptResult(JobEvent.RETRY, Outcome(7), backoff_seconds=5)
    assert result_of_exit(8, flaky, None).event is JobEvent.FAILED
    assert result_of_exit(7, dataclasses.replace(flaky, attempt=3), None).event is JobEvent.FAILED


def test_attempts_lost_by_the_service_do_not_use_up_the_policy():
    flaky = job(retry_policy={"limit": 1}, attempt=2)
    assert result_of_exit(1, flaky, None, lost_before=1).event is JobEvent.RETRY
    assert result_of_exit(1, flaky, None, lost_before=0).event is JobEvent.FAILED


def test_a_fault_of_the_service_is_retried_without_a_bill():
    """This ends when the service's retries are used up."""
    lost = JobFailure(JobErrorCode.VM_LOST, "gone", service=True)
    again = result_of_failure(lost, job(), lost_before=1, retries=2)
    assert (again.event, again.billable) == (JobEvent.RETRY, False)
    final = result_of_failure(lost, job(), lost_before=2, retries=2)
    assert (final.event, final.outcome.error_code, final.billable) == (JobEvent.FAILED, "vm_lost", False)


def test_a_fault_of_the_caller_is_final_at_once():
    result = result_of_failure(
        JobFailure(JobErrorCode.IMAGE_NOT_FOUND, "no such image"), job(), lost_before=0, retries=2
    )
    assert (result.event, result.outcome.error_code) == (JobEvent.FAILED, "image_not_found")


@pytest.mark.parametrize(
    ("error", "code", "service"),
    [
        (vms.ImageNotFound("x"), "image_not_found", False),
        (vms.SnapshotNotFound("x"), "snapshot_failed", False),
        (vms.SourceError("x"), "source_fetch_failed", False),
        (vms.CommandLost("x"), "vm_lost", False),
        (vms.VmLost("x"), "vm_lost", True),
        (vms.ConnectionLost("x"), "vm_lost", True),
        (vms.VmError("x"), "lease_failed", True),
        (ValueError("x"), "internal_error", False),
    ],
)
def test_each_error_of_a_step_has_its_code(error: Exception, code: str, service: bool):
    failure = failure_of(error)
    assert (failure.code, failure.service) == (code, service)
    assert failure.code.of_service or not failure.service


def test_a_job_that_passes_but_whose_disk_cannot_be_kept_fails():
    result = result_of_exit(0, job(), None).without_disk("no space")
    assert (result.event, result.outcome.error_code, result.outcome.error_message) == (
        JobEvent.FAILED,
        "snapshot_failed",
        "no space",
    )


def test_a_job_that_failed_anyway_keeps_its_own_reason():
    result = result_of_exit(1, job(), None)
    assert result.without_disk("no space") == result


def test_a_full_disk_of_the_job_or_of_the_host_is_a_fault():
    roomy, full = DiskUse(written=GB, free=100 * GB), DiskUse(written=20 * GB, free=100 * GB)
    assert disk_failure(roomy, Shape()) is None
    assert (failure := disk_failure(full, Shape())) is not None
    assert failure.code == "disk_full"
    assert disk_failure(DiskUse(written=GB, free=GB // 2, fills_host=True), Shape()) is not None
    assert disk_failure(DiskUse(written=GB, free=GB // 2), Shape()) is None


def test_a_disk_is_measured_if_the_host_lost_that_much_space():
    last = DiskUse(written=12 * GB, free=100 * GB)
    assert not may_have_filled(last, 94 * GB, Shape())
    assert may_have_filled(last, 94 * GB, Shape(disk_gb=16))
    assert may_have_filled(last, 92 * GB, Shape())
    assert may_have_filled(None, 100 * GB, Shape())


codes = st.integers(0, 255)
policies = st.none() | st.fixed_dictionaries(
    {"limit": st.integers(0, 10)},
    optional={"exit_codes": st.lists(codes, max_size=3), "backoff_seconds": st.integers(0, 3600)},
)


@given(policies, st.lists(st.sampled_from(["lost", "failed"]), max_size=30), codes.filter(bool))
def test_policy_and_service_retries_never_eat_each_other(
    policy: dict[str, Any] | None, history: list[str], exit_code: int
):
    lost, failed = history.count("lost"), history.count("failed")
    this = job(retry_policy=policy, attempt=len(history) + 1)
    covered = policy is not None and ("exit_codes" not in policy or exit_code in policy["exit_codes"])
    result = result_of_exit(exit_code, this, None, lost_before=lost)
    again = policy is not None and covered and failed < policy["limit"]
    assert result.event is (JobEvent.RETRY if again else JobEvent.FAILED)
    assert result.backoff_seconds == (policy.get("backoff_seconds", 0) if again and policy else 0)
    assert result.billable
    service = result_of_failure(
        JobFailure(JobErrorCode.VM_LOST, "gone", service=True), this, lost_before=lost, retries=2
    )
    assert service.event is (JobEvent.RETRY if lost < 2 else JobEvent.FAILED)
    assert (service.backoff_seconds, service.billable) == (0, False)


failures = (
    st.none()
    | st.just(JobFailure(JobErrorCode.DISK_FULL, "full"))
    | st.just(JobFailure(JobErrorCode.STEP_TIMEOUT, "late"))
)


@given(policies, st.none() | st.fixed_dictionaries({"exit_codes": st.none() | st.lists(codes)}), codes, failures)
def test_a_stopped_job_keeps_its_exit_code_and_its_bill(
    retry: dict[str, Any] | None, soft_fail: dict[str, Any] | None, exit_code: int, failure: JobFailure | None
):
    """Its error is the reason of the stop alone."""
    result = result_of_exit(exit_code, job(retry_policy=retry, soft_fail_policy=soft_fail), failure)
    canceled = result.interrupted(None)
    assert (canceled.event, canceled.outcome.error_code, canceled.outcome.error_message) == (JobEvent.DEAD, None, None)
    assert not canceled.soft_failed
    late = result.interrupted(JobFailure(JobErrorCode.STEP_TIMEOUT, "late"))
    assert (late.event, late.outcome.error_code, late.soft_failed) == (
        JobEvent.DEAD,
        "step_timeout",
        result.soft_failed,
    )
    too_late = result.interrupted(JobFailure(JobErrorCode.PIPELINE_TIMEOUT, "late"))
    assert (too_late.event, too_late.outcome.error_code, too_late.soft_failed) == (
        JobEvent.DEAD,
        "pipeline_timeout",
        False,
    )
    for each in (canceled, late, too_late):
        assert (each.outcome.exit_code, each.billable) == (result.outcome.exit_code, result.billable)


def test_the_time_out_of_a_job_that_is_being_ended_is_recovered():
    late = job(state=JobState.TIMING_OUT, error_code="step_timeout", error_message="it is late")
    assert timeout_on_record(late) == JobFailure(JobErrorCode.STEP_TIMEOUT, "it is late")
    assert timeout_on_record(dataclasses.replace(late, state=JobState.CANCELING)) is None
