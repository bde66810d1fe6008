"""The status of a state directory without a service: the same rows, read from the storage."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from actors.vms import Provider
from ci_daemon.command.observation.status import pair_table, print_pairs
from ci_daemon.command.support.session import Session
from ci_daemon.terminal.tables import print_renderable
from storage import (
    AuditFilter,
    BuildState,
    JobState,
    NewBuild,
    NewEnvironment,
    NewOrigin,
    OriginEvent,
    Outcome,
    Storage,
    SystemClock,
)
from tests.ci_daemon.conftest import Run
from tests.records import assigned, new_job, new_pipeline

PAIRS = [("service", "runs", "green"), ("", "second line", ""), ("VMs", "", ""), ("kept", "a  b " * 60, "bold red")]


@pytest.fixture
def state(state: Path) -> Path:
    """A state directory with a build: one job failed by the service's fault, and two wait."""
    storage = Storage.open(state, SystemClock())
    pipeline = new_pipeline(storage)
    new = NewBuild(branch="main", commit="c0")
    build = storage.builds.create(pipeline, new, (new_job("lost"), new_job("first"), new_job("second")))
    lost = storage.jobs.of_build(build.id)[0]
    fault = Outcome(error_code="vm_lost", error_message="the VM is\x1b[31m gone")
    storage.jobs.move(lost.id, JobState.SCHEDULED, JobState.FAILED, fault)
    storage.close()
    return state


def test_a_job_in_back_off_is_last_without_a_queue_position(
    run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]
):
    first = storage.queue.heads()[0]
    job = storage.jobs.get(first.job_id)
    assert job is not None
    lease = assigned(storage, job)
    assert storage.jobs.retry(
        first.job_id, JobState.ASSIGNED, Outcome(), lease_id=lease.id, billable=False, backoff_seconds=3600
    )
    assert run("queue", "--json") == 0
    second, again = json.loads(capsys.readouterr().out)
    assert (second["position"], second["step"]) == (1, "second")
    assert (again["position"], again["step"]) == (None, "first")
    assert again["reason"].endswith(" s before attempt 2")


def test_status_shows_waiting_jobs_and_recent_failures(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("status") == 3
    screen = capsys.readouterr().out
    assert re.search(
        r"queue    2 waiting, the oldest queued \d+ s ago: waiting for a VM: the service does not run\n", screen
    )
    assert "acme/web/1 lost: vm_lost: the VM is [31m gone\n" in screen
    assert "money    0 cents on all accounts\n" in screen


def test_status_marks_ends_that_an_operator_forced(
    run: Run, storage: Storage, provider: Provider, capsys: pytest.CaptureFixture[str]
):
    """One job's VM was ended by `lease kill`, and the other job by `build force-finish`."""
    jobs = {job.step_key: job for job in storage.jobs.of_build(1)}
    leases = {}
    for key in ("first", "second"):
        leases[key] = assigned(storage, jobs[key])
        assert storage.leases.start(leases[key].id, jobs[key].id)
    assert run("lease", "kill", leases["first"].uuid) == 0
    lost = Outcome(error_code="vm_lost", error_message="it is gone")
    storage.jobs.finish(
        jobs["first"].id, JobState.RUNNING, JobState.FAILED, lost, lease_id=leases["first"].id, billable=False
    )
    assert run("build", "force-finish", "acme/web/1", "--state", "failed", "--note", "it hangs") == 0
    capsys.readouterr()
    assert run("status", "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert [each["step"] for each in document["errors"]] == ["lost"]
    operator = Session().operator
    assert [(each["step"], each["error_message"], each["by"]) for each in document["forced"]] == [
        ("second", "it hangs", operator),
        ("first", "it is gone", operator),
    ]
    subjects = [entry.subject for entry in storage.audit.page(2, None, AuditFilter(actor=operator)).rows]
    assert subjects == ["acme/web/1", leases["first"].uuid]
    assert run("status") == 3
    assert "by hand  the latest builds that an operator ended (`ci-daemon audit`):\n" in capsys.readouterr().out


def test_status_says_once_that_the_host_is_drained(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("drain") == 0
    assert run("status") == 3
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("queue"))
    assert line.endswith(" ago; the owner has drained this host: `ci-daemon resume` has jobs start again")


def test_builds_that_wait_as_a_whole_are_in_the_queue(run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]):
    pipeline = storage.pipelines.update(1, concurrency_group="deploy", concurrency_limit=1)
    storage.builds.create(pipeline, NewBuild("eve:main", "c0ffee", approval_reason="eve may not push"), [new_job("x")])
    for _ in range(2):
        storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job("x")])
    assert run("queue", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["position"], each["build"], each["step"]) for each in found] == [
        (1, "acme/web/1", "first"),
        (2, "acme/web/1", "second"),
        (3, "acme/web/3", "x"),
        (None, "acme/web/2", None),
        (None, "acme/web/4", None),
    ]
    assert [each["reason"] for each in found[3:]] == [
        "waiting for approval: eve may not push",
        'waiting for web/3: the concurrency group "deploy" runs 1 build at a time',
    ]
    assert run("queue", "--limit", "4") == 0
    table = capsys.readouterr().out
    assert "waiting for approval" in table
    assert "acme/web/4" not in table


def test_jobs_that_wait_for_approvals_are_in_the_queue(run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]):
    pipeline = storage.pipelines.update(1, name="Web")
    storage.environments.create(pipeline.organization_id, NewEnvironment("production", approvers=("owner",)))
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job("deploy", environment="production")])
    (job,) = storage.jobs.of_build(build.id)
    storage.gates.ask(job.id, 600)
    assert run("queue", "--json") == 0
    last = json.loads(capsys.readouterr().out)[-1]
    assert (last["position"], last["build"], last["step"]) == (None, build.name, "deploy")
    assert last["reason"].startswith('waiting for approval to deploy to "production", until ')
    storage.gates.decide(job.id, approved=True, by="ada@example.org", reason=None)
    assert run("queue", "--json") == 0
    assert json.loads(capsys.readouterr().out)[-1]["step"] != "deploy"


def test_the_queue_is_in_order_and_says_the_service_is_down(run: Run, capsys: pytest.CaptureFixture[str]):
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


def test_status_names_repositories_with_errors(run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]):
    pipeline = storage.pipelines.by_id(1)
    assert pipeline is not None
    assert run("status") == 3
    assert "repos " not in capsys.readouterr().out
    urls = [f"https://git.example.org/acme/{name}.git" for name in ("away", "revoked", "well")]
    away, revoked, _ = [storage.repositories.connect(pipeline.organization_id, url, "acme/web", 60) for url in urls]
    storage.repository_checks.failed(away, "no route to host")
    with storage.transaction():
        build = storage.builds.create(pipeline, NewBuild(branch="main", commit="c1"), (new_job("only"),))
        storage.build_origins.record(build.id, NewOrigin(revoked.id, OriginEvent.PUSH, "refs/heads/main"), reports=True)
    storage.build_origins.report_failed(build.id, "the host refuses the token", 60)
    expected = ["no route to host", "the host is not told of builds: the host refuses the token"]
    assert run("repo", "list", "--json") == 0
    assert [each["last_error"] for each in json.loads(capsys.readouterr().out)] == [*expected, None]
    assert run("status", "--json") == 3
    assert [each["last_error"] for each in json.loads(capsys.readouterr().out)["repositories"]] == expected
    assert run("status") == 3
    screen = capsys.readouterr().out
    assert "repos    repositories with errors (`ci-daemon repo list`):\n" in screen
    storage.build_origins.reported(build.id, BuildState.SCHEDULED, None)
    assert run("repo", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out)[1]["last_error"] is None


def test_a_pipe_gets_the_lines_of_the_table(capsys: pytest.CaptureFixture[str]):
    """They are written without what draws tables, whose import takes as long as a small command."""
    print_pairs(PAIRS)
    written = capsys.readouterr().out
    print_renderable(pair_table(PAIRS))
    assert written == capsys.readouterr().out
    assert written.startswith("service  runs\n         second line\nVMs\n")
