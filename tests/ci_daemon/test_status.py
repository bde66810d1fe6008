"""The status of a state directory without a service: the same rows, read from the storage."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from actors.vms import Provider
from ci_daemon.command.session import Session
from storage import JobState, NewBuild, NewJob, NewPipeline, Outcome, Shape, Storage, SystemClock
from tests.ci_daemon.conftest import Run


def step(key: str, retry_policy: dict[str, object] | None = None) -> NewJob:
    return NewJob(
        step_key=key,
        name=key,
        command="true",
        image=None,
        env={},
        shape=Shape(),
        depends_on=(),
        retry_policy=retry_policy,
    )


@pytest.fixture
def state(state: Path) -> Path:
    """A state directory with a build: one job failed by the service's fault, and two wait."""
    storage = Storage.open(state, SystemClock())
    user = storage.users.create("ann@example.org", "Ann")
    organization = storage.organizations.create("Acme", "", user.id)
    pipeline = storage.pipelines.create(organization.id, NewPipeline("web", "Web", "r", "main"))
    new = NewBuild(branch="main", commit="c0")
    build = storage.builds.create(pipeline, new, (step("lost"), step("first"), step("second")))
    lost = storage.jobs.of_build(build.id)[0]
    fault = Outcome(error_code="vm_lost", error_message="the VM is\x1b[31m gone")
    storage.jobs.move(lost.id, JobState.SCHEDULED, JobState.FAILED, fault)
    storage.close()
    return state


def test_a_job_that_waits_before_another_attempt_comes_last_and_has_no_place(
    run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]
):
    first = storage.queue.heads()[0]
    lease = storage.leases.assign(
        first.job_id,
        provider="sandbox",
        image=None,
        shape=first.shape,
        network=True,
        warm_lease_id=None,
        lease_uuid="a-vm",
    )
    assert lease is not None
    assert storage.jobs.retry(
        first.job_id, JobState.ASSIGNED, Outcome(), lease_id=lease.id, billable=False, backoff_seconds=3600
    )
    assert run("queue", "--json") == 0
    second, again = json.loads(capsys.readouterr().out)
    assert (second["position"], second["step"]) == (1, "second")
    assert (again["position"], again["step"]) == (None, "first")
    assert again["reason"].endswith(" s before attempt 2")


def test_status_tells_who_waits_and_what_went_wrong_last(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("status") == 3
    screen = capsys.readouterr().out
    assert re.search(
        r"queue    2 jobs wait, the oldest queued \d+ s ago: waiting for a VM: the service does not run\n", screen
    )
    assert "acme/web/1 lost: vm_lost: the VM is [31m gone\n" in screen
    assert "money    0 cents on all accounts\n" in screen


def test_status_tells_what_an_operator_forced_from_faults(
    run: Run, storage: Storage, provider: Provider, capsys: pytest.CaptureFixture[str]
):
    """One job's VM was ended by `lease kill`, and the other job by `build force-finish`."""
    jobs = {job.step_key: job for job in storage.jobs.of_build(1)}
    leases = {}
    for key in ("first", "second"):
        leases[key] = storage.leases.assign(
            jobs[key].id,
            provider="sandbox",
            image=None,
            shape=Shape(),
            network=True,
            warm_lease_id=None,
            lease_uuid=str(uuid.uuid4()),
        )
        assert storage.leases.start(leases[key].id, jobs[key].id)
    assert run("lease", "kill", leases["first"].uuid) == 0
    lost = Outcome(error_code="vm_lost", error_message="it is gone")
    storage.jobs.finish(
        jobs["first"].id, JobState.RUNNING, JobState.FAILED, lost, lease_id=leases["first"].id, billable=False
    )
    assert run("build", "force-finish", "acme/web/1", "--state", "failed", "--note", "it hangs") == 0
    capsys.readouterr()
    assert run("status", "--json") == 3
    told = json.loads(capsys.readouterr().out)
    assert [each["step"] for each in told["errors"]] == ["lost"]
    operator = Session().operator
    assert [(each["step"], each["error_message"], each["by"]) for each in told["forced"]] == [
        ("second", "it hangs", operator),
        ("first", "it is gone", operator),
    ]
    assert run("status") == 3
    assert "by hand  the last that an operator ended (`ci-daemon audit`):\n" in capsys.readouterr().out


def test_status_says_once_that_the_host_is_drained(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("drain") == 0
    assert run("status") == 3
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("queue"))
    assert line.endswith(" ago; the owner has drained this host: `ci-daemon resume` has jobs start again")


def test_the_queue_is_in_its_order_and_says_that_nobody_serves_it(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("queue", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["position"], each["build"], each["step"]) for each in found] == [
        (1, "acme/web/1", "first"),
        (2, "acme/web/1", "second"),
    ]
    assert {each["reason"] for each in found} == {"waiting for a VM: the service does not run"}
    assert run("queue", "--limit", "1") == 0
    table = capsys.readouterr().out
    assert "first" in table
    assert "second" not in table
