"""Services of jobs: started before the command, logged beside it, ended after it, and found again."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from actors.vms.ssh.connection import Connection
from actors.vms.ssh.transport import Transport
from storage import Build, JobErrorCode, JobState, SecretScope
from tests.actors.conftest import Host
from tests.waiting import until

IMAGE = "debian:12"


def beside(command: str, *names: str, run: str, **fields: Any) -> str:
    """Return the document of a job ``only`` with services that run a command of sh."""
    services = {name: {"image": IMAGE, "command": ["sh", "-c", command], **fields} for name in names}
    return json.dumps({"version": "1", "jobs": {"only": {"run": run, "services": services}}})


def log_of(host: Host, build: Build, service: str) -> bytes:
    """Return all of the log of a service of the job ``only``."""
    log = host.storage.logs.service_reader(build.uuid, host.job(build).uuid, service)
    return log.read(0, log.size())


@pytest.mark.sandbox
def test_job_runs_once_its_services_are_ready(host: Host) -> None:
    """Each service has a log of its own, and the job's log has one line about them."""
    command = "sleep 0.2; touch /tmp/up; echo here; exec sleep 1000"
    ready = {"ready": {"command": "test -e /tmp/up"}}
    build = host.finish(host.build(beside(command, "one", "two", run="grep -c 127.0.0.1 /etc/hosts", **ready)))
    assert host.job(build).state is JobState.PASSED
    assert host.log(build) == b"services are ready: one, two\n3\n"
    assert [log_of(host, build, name) for name in ("one", "two")] == [b"here\n", b"here\n"]


@pytest.mark.sandbox
def test_a_service_has_its_secrets_and_no_log_shows_them(host: Host) -> None:
    """The command has them, too; one that is not for the build fails the job before anything is started."""
    scope = SecretScope(host.pipeline.organization_id)
    given = beside('echo "it is $PASSWORD."; exec sleep 1000', "db", run='echo "$PASSWORD"', secrets=["PASSWORD"])
    host.storage.secrets.put(scope, "PASSWORD", "a long password")
    build = host.finish(host.build(given))
    assert host.job(build).state is JobState.PASSED
    assert host.log(build) == b"services are ready: db\n***\n"
    assert log_of(host, build, "db") == b"it is ***.\n"
    host.storage.secrets.put(scope, "PASSWORD", "a long password", {"branches": ["main"]})
    build = host.finish(host.build(given))
    assert (host.job(build).error_code, host.log(build)) == (JobErrorCode.SECRET_NOT_ALLOWED, b"")
    assert log_of(host, build, "db") == b""


@pytest.mark.sandbox
def test_a_service_takes_two_conversations_more(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """One starts all services, and one follows each; the connection to the VM is the job's own."""
    made: list[str] = []
    for owner, name in ((Connection, "__init__"), (Transport, "open_socket"), (Transport, "open_command")):
        _note_calls(monkeypatch, owner, name, made)
    taken: list[Counter[str]] = []
    for names in ((), ("one",), ("one", "two")):
        build = host.finish(host.build(beside("exec sleep 1000", *names, run="true")))
        assert host.job(build).state is JobState.PASSED
        taken.append(Counter(made))
        made.clear()
    assert [each["__init__"] for each in taken] == [1, 1, 1]
    assert [each.total() - taken[0].total() for each in taken] == [0, 2, 3]


def _note_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, made: list[str]) -> None:
    real = getattr(owner, name)

    def noted(*arguments: object, **named: object) -> object:
        made.append(name)
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, noted)


@pytest.mark.sandbox
def test_service_that_is_never_ready_fails_the_job(host: Host) -> None:
    """The job says why, with the last lines of the service, and its command does not run."""
    ready = {"ready": {"port": 9, "timeout": "1s"}}
    build = host.finish(host.build(beside("echo wrong password; exec sleep 1000", "db", run="echo ran", **ready)))
    job = host.job(build)
    assert (job.state, job.error_code) == (JobState.FAILED, JobErrorCode.SERVICE_FAILED)
    assert job.error_message == (
        "the service db failed: it was not ready in time: nothing takes connections at its port 9; its last lines: "
        "wrong password"
    )
    assert b"ran" not in host.log(build)
    assert log_of(host, build, "db") == b"wrong password\n"
    assert job.started_at is None


@pytest.mark.sandbox
@pytest.mark.parametrize("fails", [False, True])
def test_service_that_ends_is_told_and_may_fail_the_job(host: Host, fails: bool) -> None:
    """The job's log names it; with fails_job the command is ended, and the job has failed for that."""
    run = "sleep 1000" if fails else "sleep 2"
    build = host.finish(host.build(beside("sleep 0.5; exit 3", "db", run=run, fails_job=fails)))
    job = host.job(build)
    assert b"the service db ended with exit code 3\n" in host.log(build)
    if fails:
        assert (job.state, job.error_code) == (JobState.FAILED, JobErrorCode.SERVICE_FAILED)
        assert job.error_message == "the service db ended with exit code 3 before the command"
    else:
        assert (job.state, job.error_code) == (JobState.PASSED, None)


@pytest.mark.sandbox
def test_services_go_on_while_the_engine_restarts(host: Host) -> None:
    """A successor finds them, and each log is whole: no line is lost or there twice."""
    count = "n=0; while n=$((n+1)); do echo $n; [ $n = 3 ] && echo up; sleep 0.05; done"
    build = host.build(beside(count, "db", run="sleep 3", ready={"log": "up"}))
    until(lambda: host.job(build).started_at is not None, "the start")
    host.restart()
    host.finish(build)
    assert host.job(build).state is JobState.PASSED
    numbers = [int(line) for line in log_of(host, build, "db").split() if line != b"up"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 10


@pytest.mark.sandbox
@pytest.mark.parametrize("ready", [{}, {"ready": {"port": 9}}], ids=["command", "waiting"])
def test_cancel_ends_a_job_with_its_services(host: Host, ready: dict[str, Any]) -> None:
    """Also while the services are not ready; nothing of the VM is left."""
    build = host.build(beside("echo up; exec sleep 1000", "db", run="sleep 1000", **ready))
    until(lambda: log_of(host, build, "db") == b"up\n", "the service")
    host.engine.cancel(build.id)
    host.finish(build)
    assert host.job(build).state is JobState.CANCELED
    until(lambda: not list(host.provider.list()), "the end of the VM")
