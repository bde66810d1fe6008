"""Jobs that wait at the gates of their environments in a live engine, also over restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any

import pytest

from actors import gate_reason, root
from actors.builds.gates import Span, seconds_in_time
from actors.mail import MailSettings
from actors.notifications import new_notification
from storage import Build, BuildState, Gate, GateNotAwaited, GateState, JobState, NewEnvironment, NotificationKind, Role
from tests.actors.conftest import Host
from tests.waiting import until

ADA = "ada@example.org"


def document(**others: Any) -> str:
    """Return a pipeline whose job `deploy` goes to production."""
    deploy = {"run": "true", "gate": {"environment": "production"}}
    return json.dumps({"version": "1", "jobs": {**others, "deploy": {**deploy, "needs": list(others)}}})


def production(host: Host, *approvers: str, **fields: Any) -> None:
    new = NewEnvironment("production", approvers=approvers, **fields)
    host.storage.environments.create(host.pipeline.organization_id, new)


def gate(host: Host, build: Build, key: str = "deploy") -> Gate | None:
    return host.storage.gates.of_job(host.job(build, key).id)


def asked(host: Host, build: Build) -> int:
    """Wait until the gate of `deploy` is asked; return the id of the job."""
    until(lambda: gate(host, build) is not None, "the gate")
    return host.job(build, "deploy").id


def answer(host: Host, build: Build, *, approved: bool, reason: str | None = None) -> None:
    host.storage.gates.decide(asked(host, build), approved=approved, by=ADA, reason=reason)
    host.engine.gate_decided(build.id)


def test_a_job_waits_at_its_gate_until_it_is_approved(host: Host):
    production(host, "admin", ADA)
    build = host.build(document(test={"run": "true"}))
    asked(host, build)
    job, waiting = host.job(build, "deploy"), gate(host, build)
    assert (job.state, job.attempt, host.job(build, "test").state) == (JobState.PENDING, 0, JobState.PASSED)
    why = gate_reason(host.storage, job, waiting)
    assert waiting is not None
    until_when = f"{waiting.expires_at:%Y-%m-%d %H:%M} UTC"
    assert why == f'waiting for approval to deploy to "production", until {until_when}, by the role admin or {ADA}'
    answer(host, build, approved=True, reason="looks good")
    assert host.finish(build).state is BuildState.PASSED
    given = gate(host, build)
    assert given is not None
    assert (given.state, given.decided_by, given.reason) == (GateState.APPROVED, ADA, "looks good")


@pytest.mark.parametrize("approved", [True, False])
def test_an_answer_reaches_the_build_by_message(host: Host, monkeypatch: pytest.MonkeyPatch, approved: bool):
    monkeypatch.setattr(root, "_POLL_INTERVAL", 3600.0)
    host.restart()
    production(host, ADA)
    build = host.build(document())
    answer(host, build, approved=approved)
    assert host.finish(build).state is (BuildState.PASSED if approved else BuildState.FAILED)


def test_a_rejected_job_fails_and_what_needs_it_is_skipped(host: Host):
    production(host, ADA)
    ir = json.loads(document())
    ir["jobs"]["after"] = {"run": "true", "needs": ["deploy"]}
    build = host.build(json.dumps(ir))
    answer(host, build, approved=False, reason="not on a Friday")
    assert host.finish(build).state is BuildState.FAILED
    job = host.job(build, "deploy")
    assert (job.state, job.error_code, job.attempt) == (JobState.FAILED, "gate_rejected", 0)
    assert job.error_message == f"{ADA} rejected it: not on a Friday"
    assert host.job(build, "after").state is JobState.SKIPPED


def test_a_gate_that_nobody_answers_fails_its_job(host: Host):
    production(host, ADA, gate_seconds=1)
    build = host.build(document())
    assert host.finish(build).state is BuildState.FAILED
    job = host.job(build, "deploy")
    assert (job.state, job.error_code) == (JobState.FAILED, "gate_expired")
    assert job.error_message == 'nobody approved it for "production" within 1 s'
    with pytest.raises(GateNotAwaited):
        host.storage.gates.decide(job.id, approved=True, by=ADA, reason=None)


def test_a_gate_outlives_a_restart_and_so_does_its_answer(host: Host):
    production(host, ADA)
    build = host.build(document())
    job_id = asked(host, build)
    before = gate(host, build)
    host.restart()
    host.finish(host.build(json.dumps({"version": "1", "jobs": {"other": {"run": "true"}}})))
    assert (gate(host, build), host.job(build, "deploy").state) == (before, JobState.PENDING)
    host.engine.stop()
    host.storage.gates.decide(job_id, approved=True, by=ADA, reason=None)  # written, and then the service is killed
    host.engine = host.new_engine()
    host.engine.start()
    assert host.finish(build).state is BuildState.PASSED


def test_a_gate_expires_while_the_service_is_away(host: Host):
    production(host, ADA, gate_seconds=1)
    build = host.build(document())
    asked(host, build)
    host.engine.stop()
    left = gate(host, build)
    assert left is not None
    until(lambda: host.storage.gates.seconds_left(left) <= 0, "the end of its time")
    host.engine = host.new_engine()
    host.engine.start()
    assert host.finish(build).state is BuildState.FAILED
    assert host.job(build, "deploy").error_code == "gate_expired"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_builds_time_does_not_run_while_only_gates_wait(host: Host, restarts: bool):
    """Nor is it longer than the pipeline says: what ran before the gate counts, and what runs after it."""
    production(host, ADA)
    ir = json.loads(document(test={"run": "true"})) | {"timeout": "2s"}
    ir["jobs"]["after"] = {"run": "sleep 600", "needs": ["deploy"]}
    build = host.build(json.dumps(ir))
    job_id = asked(host, build)
    begun = host.storage.builds.get(build.id)
    assert begun is not None
    assert begun.started_at is not None
    over = begun.started_at + timedelta(seconds=3)
    if restarts:
        host.engine.stop()
    until(lambda: host.clock.now() > over, "the end of what would be its time")
    if restarts:
        host.engine = host.new_engine()
        host.engine.start()
    assert host.job(build, "deploy").state is JobState.PENDING
    host.storage.gates.decide(job_id, approved=True, by=ADA, reason=None)
    host.engine.gate_decided(build.id)
    assert host.finish(build).state is BuildState.FAILED
    assert host.job(build, "deploy").state is JobState.PASSED
    assert host.job(build, "after").error_code == "pipeline_timeout"


@pytest.mark.parametrize(
    ("held", "busy", "counted"),
    [
        ([], [(0, 4)], 10),
        ([(4, 9)], [(-5, 4)], 5),
        ([(4, inf)], [(0, 4)], 4),
        ([(4, 9), (6, 8)], [(0, 4)], 5),
        ([(4, 9)], [(0, 4), (6, 7)], 6),
        ([(4, 9)], [(0, inf)], 10),
        ([(-8, -2)], [(-2, inf)], 10),
        ([(4, 30)], [(0, 4)], 4),
    ],
)
def test_seconds_count_unless_only_gates_wait(held: list[Span], busy: list[Span], counted: float):
    assert seconds_in_time(10.0, held, busy) == counted


def test_a_build_is_canceled_while_its_job_waits(host: Host):
    production(host, ADA)
    build = host.build(document())
    job_id = asked(host, build)
    host.engine.cancel(build.id)
    assert host.job(build, "deploy").state is JobState.CANCELED
    with pytest.raises(GateNotAwaited):
        host.storage.gates.decide(job_id, approved=True, by=ADA, reason=None)


def test_a_job_that_runs_again_is_asked_for_again(host: Host):
    """An approval of the first run does not let the second one run."""
    production(host, ADA)
    ir = json.loads(document())
    ir["jobs"]["deploy"]["run"] = 'test "$CI_ATTEMPT" = 2'
    build = host.build(json.dumps(ir))
    answer(host, build, approved=True)
    assert host.finish(build).state is BuildState.FAILED
    host.retry(build)
    host.engine.jobs_added(build.id)
    asked(host, build)
    again = gate(host, build)
    assert again is not None
    assert (again.state, host.job(build, "deploy").state) == (GateState.WAITING, JobState.PENDING)
    answer(host, build, approved=True)
    assert host.finish(build).state is BuildState.PASSED


def test_an_approval_is_of_one_build(host: Host):
    production(host, ADA)
    first, second = host.build(document()), host.build(document())
    asked(host, second)
    answer(host, first, approved=True)
    assert host.finish(first).state is BuildState.PASSED
    assert host.job(second, "deploy").state is JobState.PENDING


def test_one_job_deploys_to_an_environment_at_a_time(host: Host):
    production(host, ADA)
    slow = json.loads(document())
    slow["jobs"]["deploy"]["run"] = "echo begun; sleep 600"
    first, second = host.build(json.dumps(slow)), host.build(document())
    answer(host, first, approved=True)
    host.says(first, b"begun", "deploy")
    answer(host, second, approved=True)
    until(lambda: host.job(second, "deploy").state is JobState.SCHEDULED, "the approval")
    waiting = host.job(second, "deploy")
    assert (waiting.awaits_lock, waiting.lock) == (True, "environment production")
    host.engine.cancel(first.id)
    assert host.finish(second).state is BuildState.PASSED


def test_an_unknown_environment_fails_the_job(host: Host):
    build = host.build(document())
    assert host.finish(build).state is BuildState.FAILED
    job = host.job(build, "deploy")
    assert (job.error_code, job.state) == ("environment_not_found", JobState.FAILED)


def test_a_gate_without_approvers_opens_but_not_for_a_fork(host: Host):
    """A fork says what its jobs run, so that a member looks at each."""
    production(host)
    assert host.finish(host.build(document())).state is BuildState.PASSED
    fork = host.build(document(), untrusted_origin="pull/1/7", from_fork=True)
    asked(host, fork)
    held = host.job(fork, "deploy")
    assert (held.state, held.lock) == (JobState.PENDING, "environment production")
    answer(host, fork, approved=True)
    assert host.finish(fork).state is BuildState.PASSED


def recipients(host: Host) -> list[str]:
    """Return whom the mails that wait go to; strike them off."""
    found = []
    while (mail := host.storage.mail.next()) is not None:
        found.append(mail.recipient)
        host.storage.mail.sent(mail)
    return sorted(found)


def test_approvers_get_one_mail_even_over_a_restart(host: Host):
    """Its people do not, where they may not approve; a fork's names are mailed to nobody."""
    organization = host.pipeline.organization_id
    for name, role in (("bob", Role.ADMIN), ("cyd", Role.ADMIN), ("dan", Role.MEMBER), ("eve", Role.ADMIN)):
        user = host.storage.users.create(f"{name}@example.org", name)
        host.storage.organizations.add_member(organization, user.id, role)
        if name == "cyd":
            author = user.id
    host.storage.mail_opt_outs.set("eve@example.org", out=True)
    host.settings = replace(host.settings, mail=MailSettings(host="mail.example.org", sender="ci@example.org"))
    host.pollers = lambda _parts: ()  # type: ignore[method-assign] # nobody sends them
    host.restart()
    production(host, "admin", not_author=True)
    fork = host.build(document(), untrusted_origin="pull/1/7", from_fork=True)
    asked(host, fork)
    assert recipients(host) == []
    build = host.build(document(), created_by=author)
    asked(host, build)
    host.restart()
    host.finish(host.build(json.dumps({"version": "1", "jobs": {"other": {"run": "true"}}})))
    assert recipients(host) == [ADA, "bob@example.org"]


def test_slack_is_told_of_a_gate_that_waits(host: Host):
    """The message leads to the page of the job; kinds that chose no such event, and forks, are not told."""
    host.pollers = lambda _parts: ()  # type: ignore[method-assign] # nobody sends them
    host.restart()
    production(host, ADA)
    url, storage = "https://hooks.example.org/x", host.storage
    told, silent = (
        storage.notifications.create(
            host.pipeline.id, new_notification(NotificationKind.SLACK, events, url, to_creator=False)
        )[0]
        for events in (None, ["build.finished"])
    )
    asked(host, host.build(document(), untrusted_origin="pull/1/7", from_fork=True))
    build = host.build(document(), message="Ship <it>")
    asked(host, build)
    host.restart()
    (delivery,) = storage.notification_deliveries.page(told.id, 10, None).rows
    assert (delivery.event, delivery.build_number) == ("gate.waiting", build.number)
    text = json.loads(delivery.body or "")["text"]
    assert f'/builds/{build.number}/jobs/{host.job(build, "deploy").uuid}|{build.name}: "deploy" waits' in text
    assert "Ship &lt;it&gt;" in text
    assert "Approve or reject it there within" in text
    assert storage.notification_deliveries.page(silent.id, 10, None).rows == ()
