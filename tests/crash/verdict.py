"""The conditions on a service at rest after a crash run (engine.md, "After a crash")."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from actors.vms.sandbox import Limits
from storage import Attempt, Build, Job, JobState, LedgerSource
from tests.crash.plays import Role
from tests.crash.siege import Siege
from tests.crash.strikes import remains
from tests.e2e.daemon import until

_SERVICE_RETRIES = 2
_LATEST_END = 10.0
"""Seconds within which a busy machine ends a command after its time-out, grace included."""
_HELD = re.compile(rb"^the VM is held for .*\n", re.MULTILINE)
_HIT = re.compile(rb"^cache hit: .*\n", re.MULTILINE)
_COMPLAINTS = ("Traceback", "died and is started again", "was left running", "could not handle")


def check_builds(siege: Siege) -> None:
    """Check each build's state, and each job's state, attempts and log."""
    assert len(siege.builds()) >= len(siege.plays) / 2
    for build in siege.builds():
        play = siege.plays[build.message or ""]
        jobs = siege.storage.jobs.of_build(build.id)
        for job in jobs:
            _check_attempts(siege, job)
            _check_log(siege, build, job, play.roles[job.step_key])
        if not any(_lost_too_often(siege, job) for job in jobs):
            assert build.state is play.state, f"{build.message} is {build.state}: {jobs}"
            for job in jobs:
                _check_end(siege, build, job, play.roles[job.step_key])


def check_money(siege: Siege) -> None:
    """Check that exactly the jobs whose command ran have a debit, one each, and that the sums are right.

    Each hold has one debit, too; its time is over by then, or soon.
    """
    storage = siege.storage
    until(lambda: True if not storage.holds.open() else None, "the end of all holds", 30)
    organization = storage.organizations.by_slug(siege.client.org)
    assert organization is not None
    entries = storage.ledger.page(organization.id, 100_000, None).rows
    ran = [
        f"{build.pipeline_slug} #{build.number} {job.step_key}"
        for build in siege.builds()
        for job in storage.jobs.of_build(build.id)
        if any(attempt.started_at for attempt in storage.attempts.of_job(job.id))
    ]
    debits = [entry.description or "" for entry in entries if entry.source is LedgerSource.VM_LEASE_DEBIT]
    held = [debit.removesuffix(", held") for debit in debits if debit.endswith(", held")]
    assert sorted(debits) == sorted([*ran, *(f"{job}, held" for job in held)])
    assert len(set(held)) == len(held)
    assert sorted(held) == sorted(_held_jobs(siege))
    assert storage.ledger.balance(organization.id) == sum(entry.amount_cents for entry in entries)
    assert siege.daemon.command("ledger", "verify").returncode == 0


def check_host(siege: Siege) -> None:
    """Check that the service holds only its warm VMs, and that nothing is left once those are ended."""
    state = siege.daemon.state
    until(lambda: True if _held(siege) == _named(siege) else None, f"{_held(siege)} to be what rows name", 30)
    log = siege.daemon.log
    assert [line for line in log.splitlines() if any(complaint in line for complaint in _COMPLAINTS)] == []
    assert siege.daemon.stop() == 0
    siege.daemon.command("lease", "kill", "--all")
    siege.daemon.command("cache", "clear")
    assert remains(state) == []
    vms = state / "sandbox" / "vms"
    names = f"ci-daemon-{vms.stat().st_ino:x}-*"
    assert [group for hierarchy in Limits.of_host(1).hierarchies for group in hierarchy.parent.glob(names)] == []
    trees = ("disks", "snapshots", "trash/disks", "trash/snapshots")
    places = (vms, *(state / "sandbox" / "trees" / tree for tree in trees), state / "sources")
    assert [path for place in places for path in place.iterdir()] == []
    assert {path.name for path in (state / "logs").iterdir()} <= {build.uuid for build in siege.builds()}


def _check_end(siege: Siege, build: Build, job: Job, role: Role) -> None:
    attempts = siege.storage.attempts.of_job(job.id)
    about = f"{build.message}, {job.name}: {job.state} {job.error_code} {job.error_message} {attempts}"
    assert job.state in role.ends, about
    tries = 0 if job.cache_hit else role.tries
    assert tries in {None, sum(not _was_lost(attempt) for attempt in attempts)}, about


def _check_attempts(siege: Siege, job: Job) -> None:
    """Check that a job's attempts are closed, in time, without a gap, and lost only with a killed VM."""
    attempts = siege.storage.attempts.of_job(job.id)
    assert [attempt.number for attempt in attempts] == list(range(1, job.attempt + 1)), job
    assert job.state.terminal, job
    assert all(attempt.finished_at for attempt in attempts), attempts
    assert all(_ended_in_time(job, attempt) for attempt in attempts), (job, attempts)
    lost = [attempt for attempt in attempts if _was_lost(attempt)]
    assert {_lease(siege, attempt) for attempt in lost} <= siege.struck, f"{job.name} lost a VM for nothing: {lost}"


def _check_log(siege: Siege, build: Build, job: Job, role: Role) -> None:
    """Compare each attempt's log with its command's output, and the job's log with their sum."""
    whole = b""
    for attempt in siege.storage.attempts.of_job(job.id):
        kept = _HELD.sub(b"", _text(siege.daemon.state / "logs" / build.uuid / job.uuid / f"{attempt.number}.log"))
        notice = f"attempt {attempt.number}\n".encode() if attempt.number > 1 else b""
        said = notice + role.speech.of(job.step_key, attempt.number)
        about = f"{build.message}, {job.name}, attempt {attempt.number}: {len(kept)} of {len(said)} bytes, {attempt}"
        if role.whole and attempt.exit_code is not None and attempt.error_code is None:
            assert kept == said, about
        assert said.startswith(kept), about
        whole += kept
    log = siege.client.request("GET", f"{siege.path(build)}/jobs/{job.uuid}/log")
    without = _HELD.sub(b"", log.content)
    content = _HIT.sub(b"", without) if job.cache_hit else without
    assert (log.status_code, log.headers["X-Log-Complete"], content == whole) == (200, "true", True), job
    assert job.cache_hit == (content != without), job


def _held_jobs(siege: Siege) -> list[str]:
    """Return the jobs that had a hold, which has ended."""
    with closing(sqlite3.connect(siege.daemon.state / "ci-daemon.sqlite3")) as database:
        held = {job_id for (job_id,) in database.execute("SELECT job_id FROM holds WHERE finished_at IS NOT NULL")}
    return [
        f"{build.pipeline_slug} #{build.number} {job.step_key}"
        for build in siege.builds()
        for job in siege.storage.jobs.of_build(build.id)
        if job.id in held
    ]


def _ended_in_time(job: Job, attempt: Attempt) -> bool:
    """True if the command ended within the step's time-out, if it has one, despite the kills."""
    if job.timeout_seconds is None or attempt.started_at is None or attempt.exited_at is None:
        return True
    return (attempt.exited_at - attempt.started_at).total_seconds() < job.timeout_seconds + _LATEST_END


def _was_lost(attempt: Attempt) -> bool:
    """True if an attempt failed because the service could not bring its command to an end."""
    return attempt.state is JobState.FAILED and attempt.error_code is not None


def _lost_too_often(siege: Siege, job: Job) -> bool:
    """True if a job lost more VMs than the service retries."""
    lost = sum(_was_lost(attempt) for attempt in siege.storage.attempts.of_job(job.id))
    return lost > _SERVICE_RETRIES and job.error_code == "vm_lost"


def _lease(siege: Siege, attempt: Attempt) -> str:
    with closing(sqlite3.connect(siege.daemon.state / "ci-daemon.sqlite3")) as database:
        query = "SELECT uuid FROM leases WHERE job_id = ? AND attempt = ?"
        (uuid,) = database.execute(query, (attempt.job_id, attempt.number)).fetchone()
    return str(uuid)


def _held(siege: Siege) -> dict[str, set[str]]:
    """Return the VMs, snapshots and archives that exist."""
    sandbox = siege.daemon.state / "sandbox"
    disks, snapshots = ({path.name for path in (sandbox / "trees" / part).iterdir()} for part in ("disks", "snapshots"))
    vms = {path.name for path in (sandbox / "vms").iterdir()}
    return {"vms": vms | disks, "snapshots": snapshots, "sources": set(siege.storage.sources.all())}


def _named(siege: Siege) -> dict[str, set[str]]:
    """Return the VMs, snapshots and archives that should exist at rest: those with rows."""
    return {
        "vms": {lease.uuid for lease in siege.storage.leases.live()},
        "snapshots": {snapshot.name for snapshot in siege.storage.snapshots.all()},
        "sources": set(),
    }


def _text(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
