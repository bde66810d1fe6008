"""Proofs: tests that are run again and again from the disk before their job."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Self

from actors.test_reports import CaseOutcome, PassRate, selection
from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.operation import GET, POST, Call, Callers, Found, Query, created, operation
from api.operations.things import BUILD, JOB, PIPELINE, ThisBuild, ThisJob, ThisMembership, ThisPipeline
from storage import (
    MOST_RUNS,
    WHOLE_JOB,
    NewProof,
    Proof,
    ProofState,
    ProvedTest,
    Role,
    Scope,
    TestName,
    TooManyProofs,
    described,
    example,
    immutable,
    showing,
)

if TYPE_CHECKING:
    from api.fields import Command, ProofTests
    from storage import Build, Job, PastProof, Storage, Uuid

USUAL_TIMES = 20
_USUAL_LIMIT = 3600
_LONGEST_LIMIT = 6 * 3600
_LISTED = 50
_PROOF = f"{PIPELINE}/proofs/{{proof}}"
_MOST_TESTS = 100
_LONGEST_NAME = 200
"""The length from which on the name in a report may be cut, so that it is no test's for certain."""

_TEST = (
    Parameter("name", "The name of the test, as a report has it.", {"type": "string"}, required=True),
    Parameter("suite", "Its suite or class; without one, tests with this name of all suites.", {"type": "string"}),
)


@immutable
class ProveTestsRequest:
    """The body of ``POST …/jobs/{job_id}/proofs``.

    Without ``tests`` they are those that failed in the job, or the whole job if it has no report of them.
    """

    tests: ProofTests | None = described("The tests, each as SUITE::NAME or NAME of a report.", default=None)
    command: Command | None = described(
        "A command in the place of the job's, in which {tests}, {suites} and {pattern} stand for the quoted tests; by"
        " default the pipeline's test_command.",
        default=None,
    )
    times: int = described("The number of runs.", default=USUAL_TIMES, word="NUMBER", bounds=(1, MOST_RUNS))
    timeout_seconds: int = described("The most seconds of one run.", default=300, bounds=(1, 600))
    limit_seconds: int = described(
        "The seconds after which no other run begins.", default=_USUAL_LIMIT, bounds=(1, _LONGEST_LIMIT)
    )
    max_cents: int | None = described(
        "The most that the runs may cost, in cents.", default=None, bounds=(1, 100_000_000)
    )


@immutable
class ProvedTestRecord:
    """A test of a proof, with the runs that it passed and failed.

    The true share of runs that pass is from ``low`` to ``high`` with 95 % confidence, of 1. Without a name it is the
    whole job.
    """

    suite: str = example("tests.test_math")
    name: str = example("test_adds")
    passed: int = example(14)
    failed: int = example(6)
    low: float = example(0.481)
    high: float = example(0.855)
    words: str = example("passed 14 of 20: with 95% confidence it passes in 48% to 85% of runs")

    @classmethod
    def of(cls, test: ProvedTest) -> Self:
        """Return the record of a stored test."""
        rate = PassRate.of(test.passed, test.failed)
        return showing(cls, test, low=round(rate.low, 3), high=round(rate.high, 3), words=rate.words)


@immutable
class ProofRecord:
    """A proof: ``times`` runs of tests of a job from the disk before it, of which ``runs`` have ended.

    ``alone`` is true if the runs leave out the other tests of the job. ``lacking`` says in words what the runs do not
    have of the job's, such as its secrets. ``troubles`` says why runs tell nothing, each reason once. ``reason`` says
    why it ended before its last run.
    """

    uuid: Uuid
    job_id: Uuid
    build_number: int
    commit: str | None
    step_key: str
    state: ProofState
    reason: str | None
    times: int = example(20)
    runs: int = example(20)
    seconds_of_runs: float = example(8.5)
    tests: tuple[ProvedTestRecord, ...]
    alone: bool
    lacking: str | None = example("the runs have none of the job's secrets")
    troubles: tuple[str, ...] = example(["its time was up"])
    opened_by: str = example("ada@example.org")
    cents: int
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, storage: Storage, proof: Proof) -> Self:
        """Return the record of a stored proof."""
        job = storage.jobs.get(proof.job_id)
        build = None if job is None else storage.builds.get(job.build_id)
        if job is None or build is None:
            raise ApiError.not_found("proof", proof.uuid)
        runs, tests = storage.proofs.runs(proof.id), storage.proofs.tests(proof.id)
        named = [TestName(each.suite, each.name) for each in tests if not each.is_whole_job]
        return showing(
            cls,
            proof,
            job_id=job.uuid,
            build_number=build.number,
            commit=build.commit,
            step_key=job.step_key,
            runs=len(runs),
            seconds_of_runs=sum(each.milliseconds for each in runs) / 1000,
            tests=tuple(map(ProvedTestRecord.of, tests)),
            alone=proof.command is not None or selection(job.command, job.env, named, None).alone,
            lacking=_lacking(job),
            troubles=tuple(dict.fromkeys(each.trouble for each in runs if each.trouble is not None)),
            cents=storage.proofs.cents(proof),
        )


@immutable
class PastProofRecord:
    """A test in a proof that it was in: how often it passed there, and of which build."""

    proof_id: Uuid
    build_number: int
    commit: str | None
    step_key: str
    state: ProofState
    test: ProvedTestRecord
    created_at: datetime

    @classmethod
    def of(cls, past: PastProof) -> Self:
        """Return the record of a stored one."""
        return showing(
            cls,
            past,
            proof_id=past.proof.uuid,
            state=past.proof.state,
            created_at=past.proof.created_at,
            test=ProvedTestRecord.of(past.test),
        )


ProofList = Annotated[list[ProofRecord], "The proofs of the build's jobs, newest first."]
PastProofList = Annotated[list[PastProofRecord], "The proofs of the test, newest first."]


def _proof(call: Call, pipeline: ThisPipeline, proof: str) -> Proof:
    found = call.storage.proofs.by_uuid(pipeline.id, proof)
    if found is None:
        raise ApiError.not_found("proof", proof)
    return found


ThisProof = Annotated[Proof, Found(_proof, ("proof_not_found",))]
"""The proof ``{proof}`` of a pipeline."""


@operation(
    "proveTests",
    POST,
    f"{JOB}/proofs",
    created("The proof, whose runs begin when no job waits for a VM."),
    errors=(
        "insufficient_org_role",
        "billing_insufficient_balance",
        "budget_exhausted",
        "disk_not_kept",
        "test_not_found",
        "too_many_proofs",
    ),
    callers=Callers(scope=Scope.FORK),
)
def prove_tests(
    call: Call,
    member: ThisMembership,
    pipeline: ThisPipeline,
    build: ThisBuild,
    job: ThisJob,
    body: ProveTestsRequest,
) -> ProofRecord:
    """Run tests of a job again and again from the disk before its command, and count how often they pass.

    Any member can. Each run has a VM and a fork of its own, at the price of the job's, has the variables of the job
    but not its secrets, and none of its services. Runs begin when no job waits for a VM. If the build has jobs of an
    environment, or with limited secrets, it needs the role admin.
    """
    from actors.forks import is_guarded, kept_disk  # noqa: PLC0415 - what makes VMs, which few calls need
    from api.builds.creation import require_budget, require_credit  # noqa: PLC0415 - planning takes long to import

    if is_guarded(call.storage, build):
        member.require(Role.ADMIN)
    require_budget(call.storage, call.budget_id)
    require_credit(call.storage, build.organization_id)
    if kept_disk(call.storage, job) is None:
        raise ApiError("disk_not_kept", "the disk of the job is not kept, or not yet: retry the job to get another")
    tests = _tests(call, build, job, body.tests)
    how = selection(job.command, job.env, tests, body.command or pipeline.test_command)
    new = NewProof(
        times=body.times,
        seconds=body.timeout_seconds,
        limit_seconds=body.limit_seconds,
        tests=tests or (WHOLE_JOB,),
        opened_by=call.actor,
        command=how.command or body.command,
        exit_counts=not tests or how.command is not None,
        max_cents=body.max_cents,
        budget_id=call.budget_id,
    )
    try:
        proof = call.storage.proofs.add(build, job, new)
    except TooManyProofs as error:
        raise ApiError("too_many_proofs", str(error)) from None
    call.engine.proofs_changed()
    return ProofRecord.of(call.storage, proof)


@operation("listBuildProofs", GET, f"{BUILD}/proofs", "The proofs.")
def list_build_proofs(call: Call, build: ThisBuild) -> ProofList:
    """List the 50 newest proofs of the jobs of a build."""
    return [ProofRecord.of(call.storage, each) for each in call.storage.proofs.of_build(build.id, _LISTED)]


@operation("getProof", GET, _PROOF, "The proof.")
def get_proof(call: Call, proof: ThisProof) -> ProofRecord:
    """Return a proof, with the counts of the runs that have ended."""
    return ProofRecord.of(call.storage, proof)


@operation("cancelProof", POST, f"{_PROOF}/cancel", "The proof.", callers=Callers(scope=Scope.FORK))
def cancel_proof(call: Call, proof: ThisProof) -> ProofRecord:
    """Cancel a proof: its runs under way are ended, and what others told stays.

    One that has ended stays as it is.
    """
    if call.storage.proofs.end(proof.id, ProofState.CANCELED, f"{call.actor} canceled it"):
        call.engine.proofs_changed()
    return ProofRecord.of(call.storage, call.storage.proofs.get(proof.id) or proof)


@operation(
    "listTestProofs", GET, f"{PIPELINE}/test-proofs", "The proofs.", errors=("invalid_filter",), parameters=_TEST
)
def list_test_proofs(call: Call, pipeline: ThisPipeline, query: Query) -> PastProofList:
    """List the 50 newest proofs of one test, with the rate and the commit of each."""
    name = query.given["name"]
    if not name:
        raise ApiError("invalid_filter", "name: expected the name of a test")
    found = call.storage.proofs.of_test(pipeline.id, name, query.given["suite"] or None, _LISTED)
    return list(map(PastProofRecord.of, found))


def _tests(call: Call, build: Build, job: Job, wanted: list[str] | None) -> tuple[TestName, ...]:
    """Return the tests to prove, by the reports of the job. Raises ApiError ``test_not_found``."""
    found: dict[TestName, bool] = {}
    for report in call.test_reports.of_build(build).reports:
        if report.artifact.job_uuid == job.uuid:
            for case in report.cases:
                if max(len(case.suite), len(case.name)) < _LONGEST_NAME:
                    name = TestName(case.suite, case.name)
                    found[name] = found.get(name, False) or case.outcome is CaseOutcome.FAILED
    if wanted is None:
        failed = [name for name, has_failed in found.items() if has_failed]
        return tuple(failed) if len(failed) <= _MOST_TESTS else ()
    chosen: dict[TestName, None] = {}
    for text in wanted:
        named = [each for each in found if text in {each.name, f"{each.suite}::{each.name}"}]
        if not named:
            raise ApiError.not_found("test", text)
        chosen |= dict.fromkeys(named)
    if len(chosen) > _MOST_TESTS:
        raise ApiError("test_not_found", f"the names are of {len(chosen)} tests: name at most {_MOST_TESTS}")
    return tuple(chosen)


def _lacking(job: Job) -> str | None:
    lacks = [word for word, has in (("secrets", job.secrets), ("services", job.services)) if has]
    return f"the runs have none of the job's {' and '.join(lacks)}" if lacks else None
