"""The conditions on a service at rest after a crash run (engine.md, "After a crash")."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from actors.vms.host.vm_folder import VmFolder
from storage import Attempt, Build, GateState, Job, JobState, LeaseState, LedgerSource
from tests.crash.crash_run import CrashRun
from tests.crash.scenarios import ExpectedJob
from tests.e2e.pipelines import one
from tests.e2e.stock import vms_of
from tests.e2e.traces import traces
from tests.state import run_sql
from tests.waiting import until

_SERVICE_RETRIES = 2
_END_TOLERANCE_SECONDS = 10.0
"""Seconds within which a busy machine ends a command after its time-out, grace included."""
_NOTICE = re.compile(
    rb"^(the VM is held for|artifacts:|the VM was lost before its artifacts|the image|outputs:|files of|generated jobs:"
    rb"|the jobs that it has generated are|services are ready:|the service db ended with|the workspace is as) .*\n",
    re.MULTILINE,
)
_HIT = re.compile(rb"^cache hit: .*\n", re.MULTILINE)
_ERRORS = ("Traceback", "died and is started again", "was left running", "could not handle")


def check_builds(run: CrashRun) -> None:
    """Check each build's state, and each job's state, attempts and log."""
    assert len(run.builds()) >= len(run.scenarios) / 2
    for build in run.builds():
        scenario = run.scenario(build)
        jobs = run.storage.jobs.of_build(build.id)
        for job in jobs:
            _check_attempts(run, job)
            _check_log(run, build, job, scenario.jobs[job.step_key])
        assert build.finished_at is not None, build
        early = [job for job in jobs if job.finished_at is None or job.finished_at > build.finished_at]
        assert early == [], f"{build.message} ended before {early}"
        if not any(_lost_too_often(run, job) for job in jobs):
            assert build.state is scenario.state, f"{build.message} is {build.state}: {jobs}"
            assert sorted(job.step_key for job in jobs) == sorted(scenario.jobs), build.message
            for job in jobs:
                _check_end(run, build, job, scenario.jobs[job.step_key])
                _check_beside(run, build, {each.step_key: each for each in jobs}, job, scenario.jobs[job.step_key])


def check_gates(run: CrashRun) -> None:
    """Check that gates have the answers that were given, and that no job ran before its gate was open."""
    assert run.reactions.failures == []
    for build in run.builds():
        answer, gates = run.scenario(build).answer, run.storage.gates.of_build(build.id)
        for job in run.storage.jobs.of_build(build.id):
            gate = gates.get(job.id)
            assert (gate is None) or (gate.state == answer), (build.message, gate)
            assert gate is not None or job.id not in run.reactions.answered, f"{build.message}: its answer is lost"
            if job.environment is None:
                continue
            attempts = run.storage.attempts.of_job(job.id)
            opened_at = gate.decided_at if gate is not None and gate.state is GateState.APPROVED else None
            early = [each for each in attempts if opened_at is None or each.created_at < opened_at]
            assert early == [], f"{build.message} ran {job.name} before its gate was open: {early}, {gate}"


def check_triggers(run: CrashRun) -> None:
    """Check that no push, no time of a schedule and no webhook was lost, or came twice."""
    run.triggers.check(run.builds(), run.reactions.ends)


def check_money(run: CrashRun) -> None:
    """Check that exactly the jobs whose command ran have a debit, one each, and that the sums are right.

    Each hold has one debit, too; its time is over by then, or soon.
    """
    storage = run.storage
    until(lambda: not storage.holds.open(), "the end of all holds")
    organization = storage.organizations.by_slug(run.client.org)
    assert organization is not None
    entries = storage.ledger.page(organization.id, 100_000, None).rows
    ran = [
        f"{build.pipeline_slug} #{build.number} {job.step_key}"
        for build in run.builds()
        for job in storage.jobs.of_build(build.id)
        for attempts in _runs(run, job)
        if any(attempt.started_at for attempt in attempts)
    ]
    debits = [
        (entry.description or "").removesuffix(", again")
        for entry in entries
        if entry.source is LedgerSource.VM_LEASE_DEBIT
    ]
    held = [debit.removesuffix(", held") for debit in debits if debit.endswith(", held")]
    assert sorted(debits) == sorted([*ran, *(f"{job}, held" for job in held)])
    assert len(set(held)) == len(held)
    assert sorted(held) == sorted(_held_jobs(run))
    assert storage.ledger.balance(organization.id) == sum(entry.amount_cents for entry in entries)
    assert run.daemon.command("ledger", "verify").returncode == 0


def check_parked(run: CrashRun) -> None:
    """Check that every VM that the service has parked is there and serves a job."""
    parked = until(lambda: _all_parked(run), "the end of all parking")
    folders = [VmFolder(run.daemon.state / "sandbox" / "vms" / vm) for vm in parked]
    assert [folder.id for folder in folders if not (folder.alive and folder.parked)] == []
    builds = [run.pipeline.build(one("echo served")) for _ in parked]
    assert [build.finish()["state"] for build in builds] == ["passed"] * len(builds)
    assert {(build.log(), build.jobs()["only"]["attempt"]) for build in builds} == {("served\n", 1)}
    assert parked <= set.union(*(vms_of(run.daemon, build) for build in builds))


def check_host(run: CrashRun) -> None:
    """Check that the service holds only its parked VMs, and that nothing is left once those are ended."""
    state = run.daemon.state
    until(lambda: _held(run) == _named(run), f"{_held(run)} to be what rows name")
    log = run.daemon.log
    assert [line for line in log.splitlines() if any(error in line for error in _ERRORS)] == []
    assert run.daemon.stop() == 0
    run.daemon.end_vms()
    run.daemon.command("cache", "clear")
    assert traces(state) == {}
    sandbox = state / "sandbox" / "trees"
    assert list((sandbox / "trash" / "snapshots").iterdir()) == []
    # What is left are disks of failed jobs, which are kept, and those below them.
    left = {path.name for path in (sandbox / "snapshots").iterdir()}
    assert left == {snapshot.name for snapshot in run.storage.snapshots.all()}
    assert run.storage.snapshots.unneeded() == []
    kept = {each.snapshot for each in run.storage.kept_disks.all()}
    assert kept <= left
    assert bool(kept) == bool(left)
    archives = {run.storage.sources.path(uuid) for uuid in run.storage.source_retention.owners()}
    assert set((state / "sources").iterdir()) == archives
    assert {path.name for path in (state / "logs").iterdir()} <= {build.uuid for build in run.builds()}


def _runs(run: CrashRun, job: Job) -> list[list[Attempt]]:
    """Return the attempts of each run of a job: all, but for builds that a client has retried."""
    ends, runs = run.reactions.ended_at.get(job.id, set()), list[list[Attempt]]([[]])
    for attempt in run.storage.attempts.of_job(job.id):
        runs[-1].append(attempt)
        if attempt.number in ends:
            runs.append([])
    return runs


def _check_end(run: CrashRun, build: Build, job: Job, expected: ExpectedJob) -> None:
    attempts = run.storage.attempts.of_job(job.id)
    message = f"{build.message}, {job.name}: {job.state} {job.error_code} {job.error_message} {attempts}"
    assert job.state in expected.states, message
    number = 0 if job.cache_hit else expected.attempts
    assert number in {None, sum(not _was_lost(attempt) for attempt in attempts)}, message
    if job.state is JobState.PASSED and expected.beside.makes is None:
        kept = {
            each.path: run.storage.artifacts.path(each).read_text() for each in run.storage.artifacts.of_job(job.id)
        }
        assert kept == {f"out/{number}": f"out/{number}" for number in range(1, expected.artifacts + 1)}, message


def _check_beside(run: CrashRun, build: Build, jobs: Mapping[str, Job], job: Job, expected: ExpectedJob) -> None:
    """Check all of a job but its log: its maker, its outputs, its files, and the logs of its services."""
    beside, name = expected.beside, f"{build.message}, {job.name}"
    maker = None if job.generated_by is None else _by_uuid(jobs.values(), job.generated_by).step_key
    assert maker == beside.generated_by, name
    if job.state is not JobState.PASSED:
        return
    outputs = _outputs(run, job)
    assert {key: outputs.get(key) for key in beside.tells} == beside.tells, (name, outputs)
    if beside.makes is not None:
        assert _kept_hash(run, job, beside.makes) == outputs["SUM"], name
    if beside.takes is not None and beside.takes_of is None:
        told = _outputs(run, jobs[beside.takes])["SUM"]
        assert (outputs.get("GOT"), outputs.get("READ")) == (told, told), (name, outputs)
    elif beside.takes is not None and beside.takes_of is not None:
        taken = run.storage.taken_builds.get(build.id, beside.takes_of)
        assert taken is not None, name
        (maker_of_other,) = [each for each in run.storage.jobs.of_build(taken) if each.step_key == beside.takes]
        assert outputs.get("GOT") == _outputs(run, maker_of_other)["SUM"], (name, outputs, taken)
    if beside.service is not None:
        _check_service_log(run, build, job, beside.service)


def _check_service_log(run: CrashRun, build: Build, job: Job, service: str) -> None:
    """Check that a service's lines are there once, in each attempt, and also where the command passed."""
    folder = run.daemon.state / "logs" / build.uuid / job.uuid / "services" / service
    for attempt in run.storage.attempts.of_job(job.id):
        lines = _text(folder / f"{attempt.number}.log").splitlines()
        assert lines[:-1] == [b"%d" % number for number in range(1, len(lines))], (build.message, lines[-5:])
        assert lines or attempt.state is not JobState.PASSED, build.message


def _outputs(run: CrashRun, job: Job) -> Mapping[str, str]:
    outputs = run.storage.told.outputs(job.id)
    return {} if outputs is None else outputs.variables


def _kept_hash(run: CrashRun, job: Job, path: str) -> str:
    (artifact,) = run.storage.artifacts.of_job(job.id)
    assert artifact.path == path
    digest = hashlib.sha256(run.storage.artifacts.path(artifact).read_bytes()).hexdigest()
    assert digest == artifact.sha256
    return digest


def _by_uuid(jobs: Iterable[Job], uuid: str) -> Job:
    return next(job for job in jobs if job.uuid == uuid)


def _check_attempts(run: CrashRun, job: Job) -> None:
    """Check that a job's attempts are closed, in time, without a gap, and lost only with a killed VM."""
    attempts = run.storage.attempts.of_job(job.id)
    assert [attempt.number for attempt in attempts] == list(range(1, job.attempt + 1)), job
    assert job.state.terminal, job
    assert all(attempt.finished_at for attempt in attempts), attempts
    assert all(_ended_in_time(job, attempt) for attempt in attempts), (job, attempts)
    lost = [attempt for attempt in attempts if _was_lost(attempt)]
    assert {_lease(run, attempt) for attempt in lost} <= run.killed_vms, f"{job.name} lost a VM for nothing: {lost}"


def _check_log(run: CrashRun, build: Build, job: Job, expected: ExpectedJob) -> None:
    """Compare each attempt's log with its command's output, and the job's log with their sum."""
    stored = b""
    for attempt in run.storage.attempts.of_job(job.id):
        kept = _NOTICE.sub(b"", _text(run.daemon.state / "logs" / build.uuid / job.uuid / f"{attempt.number}.log"))
        if job.cache_hit:  # an attempt was lost, and by the next one another build had stored the disk
            kept = _HIT.sub(b"", kept)
        notice = f"attempt {attempt.number}\n".encode() if attempt.number > 1 else b""
        whole = notice + expected.output.expected(job.step_key, attempt.number)
        message = (
            f"{build.message}, {job.name}, attempt {attempt.number}: {kept[:400]!r} is not {whole[:400]!r}, {attempt}"
        )
        by_itself = attempt.exit_code is not None and attempt.state is not JobState.CANCELED
        ended = by_itself and attempt.error_code is None
        if (expected.complete and ended) or attempt.state is JobState.PASSED:
            assert kept == whole, message
        assert whole.startswith(kept), message
        stored += kept
    log = run.client.request("GET", f"{run.path(build)}/jobs/{job.uuid}/log")
    without = _NOTICE.sub(b"", log.content)
    content = _HIT.sub(b"", without) if job.cache_hit else without
    assert (log.status_code, log.headers["X-Log-Complete"]) == (200, "true"), job
    assert content == stored, job
    assert job.cache_hit == (content != without), job


def _held_jobs(run: CrashRun) -> list[str]:
    """Return the jobs that had a hold, which has ended."""
    rows = run_sql(run.daemon.state, "SELECT job_id FROM holds WHERE finished_at IS NOT NULL")
    held = {job_id for (job_id,) in rows}
    return [
        f"{build.pipeline_slug} #{build.number} {job.step_key}"
        for build in run.builds()
        for job in run.storage.jobs.of_build(build.id)
        if job.id in held
    ]


def _ended_in_time(job: Job, attempt: Attempt) -> bool:
    """True if the command ended within the step's time-out, if it has one, despite the kills."""
    if job.timeout_seconds is None or attempt.started_at is None or attempt.exited_at is None:
        return True
    return (attempt.exited_at - attempt.started_at).total_seconds() < job.timeout_seconds + _END_TOLERANCE_SECONDS


def _was_lost(attempt: Attempt) -> bool:
    """True if an attempt failed because the service could not bring its command to an end."""
    return attempt.state is JobState.FAILED and attempt.error_code is not None


def _lost_too_often(run: CrashRun, job: Job) -> bool:
    """True if a job lost more VMs than the service retries."""
    lost = sum(_was_lost(attempt) for attempt in run.storage.attempts.of_job(job.id))
    return lost > _SERVICE_RETRIES and job.error_code == "vm_lost"


def _lease(run: CrashRun, attempt: Attempt) -> str:
    query = "SELECT uuid FROM leases WHERE job_id = :job AND attempt = :number"
    (row,) = run_sql(run.daemon.state, query, job=attempt.job_id, number=attempt.number)
    return str(row[0])


def _all_parked(run: CrashRun) -> set[str] | None:
    """Return the VMs without a job once all are parked; None while there are others, or none."""
    leases = run.storage.leases.live()
    return {lease.uuid for lease in leases if all(each.state is LeaseState.PARKED for each in leases)} or None


def _held(run: CrashRun) -> dict[str, set[str]]:
    """Return the VMs of which anything is left, and the snapshots and archives."""
    snapshots = {path.name for path in (run.daemon.state / "sandbox" / "trees" / "snapshots").iterdir()}
    vms = set(traces(run.daemon.state))
    return {"vms": vms, "snapshots": snapshots, "sources": set(run.storage.sources.all())}


def _named(run: CrashRun) -> dict[str, set[str]]:
    """Return the VMs, snapshots and archives that should exist at rest: those with rows."""
    return {
        "vms": {lease.uuid for lease in run.storage.leases.live()},
        "snapshots": {snapshot.name for snapshot in run.storage.snapshots.all()},
        "sources": run.storage.source_retention.owners(),
    }


def _text(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
