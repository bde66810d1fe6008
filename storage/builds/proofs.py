"""Proofs of flaky tests as rows: what is to run again, and what came of it (engine.md, "Proofs")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import TooManyProofs
from storage.models.builds import BuildRow, JobRow
from storage.models.failures import ProofRow, ProofRunRow, ProvedTestRow
from storage.models.leases import HoldRow
from storage.records.leases import HoldEnd
from storage.records.proofs import PastProof, Proof, ProofRun, ProofState, ProvedTest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.jobs import Job
    from storage.records.proofs import NewProof, TestName

_PROOF = Columns.of(Proof, ProofRow)
_TEST = Columns.of(ProvedTest, ProvedTestRow)
_RUN = Columns.of(ProofRun, ProofRunRow)
_PAST = Columns(PastProof, _PROOF, _TEST, BuildRow.number, BuildRow.commit, JobRow.step_key)
_MOST_OPEN = 10


class Proofs:
    """The proofs of all organizations. Safe in any thread.

    A run counts once, when it is recorded; one that a crash interrupted is not recorded and begins again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        proofs, is_open = ProofRow.select(*_PROOF.selected), ProofRow.finished_at.is_null()
        this = ProofRow.id == slot("id")
        self._get = Query(database, lambda: proofs.where(this), _PROOF)
        self._by_uuid = Query(
            database,
            lambda: proofs.where(ProofRow.pipeline == slot("pipeline_id"), ProofRow.uuid == slot("uuid")),
            _PROOF,
        )
        self._open = Query(database, lambda: proofs.where(is_open).order_by(ProofRow.id), _PROOF)
        self._of_build = Query(
            database,
            lambda: proofs.where(ProofRow.build == slot("build_id")).order_by(ProofRow.id.desc()).limit(slot("limit")),
            _PROOF,
        )
        self._count_open = Query(
            database,
            lambda: ProofRow.select(peewee.fn.COUNT(ProofRow.id)).where(
                is_open, ProofRow.organization == slot("organization_id")
            ),
            first,
        )
        of_proof = ProvedTestRow.proof == slot("proof_id")
        self._tests = Query(
            database,
            lambda: ProvedTestRow.select(*_TEST.selected).where(of_proof).order_by(ProvedTestRow.id),
            _TEST,
        )
        self._runs = Query(
            database,
            lambda: (
                ProofRunRow.select(*_RUN.selected)
                .where(ProofRunRow.proof == slot("proof_id"))
                .order_by(ProofRunRow.number)
            ),
            _RUN,
        )
        past = (
            ProvedTestRow.select(*_PAST.selected)
            .join(ProofRow)
            .join(JobRow, on=JobRow.id == ProofRow.job)
            .join(BuildRow, on=BuildRow.id == ProofRow.build)
            .where(ProofRow.pipeline == slot("pipeline_id"))
            .order_by(ProvedTestRow.id.desc())
            .limit(slot("limit"))
        )
        named = ProvedTestRow.name == slot("name")
        of_suite = named & (ProvedTestRow.suite == slot("suite"))
        self._of_name = Query(database, lambda: past.where(named), _PAST)
        self._of_test = Query(database, lambda: past.where(of_suite), _PAST)
        of_job = (HoldRow.job == slot("job_id")) & (HoldRow.opened_by == slot("opened_by"))
        self._cents = Query(
            database,
            lambda: HoldRow.select(peewee.fn.COALESCE(peewee.fn.SUM(HoldRow.amount_cents), 0)).where(of_job),
            first,
        )
        self._insert = Write(database, lambda: insert_into(ProofRow, "reason", "finished_at"))
        self._insert_test = Write(database, lambda: insert_into(ProvedTestRow, "passed", "failed"))
        self._insert_run = Write(database, lambda: insert_into(ProofRunRow).on_conflict_ignore())
        of_name = of_proof & of_suite
        self._count = Write(
            database,
            lambda: ProvedTestRow.update(
                {
                    ProvedTestRow.passed: ProvedTestRow.passed + slot("passed"),
                    ProvedTestRow.failed: ProvedTestRow.failed + slot("failed"),
                }
            ).where(of_name),
        )
        self._end = Write(
            database,
            lambda: ProofRow.update(
                {
                    ProofRow.state: slot("state"),
                    ProofRow.reason: slot("reason"),
                    ProofRow.finished_at: slot("now"),
                }
            ).where(this, is_open),
        )
        ended = {
            HoldRow.reason: peewee.fn.COALESCE(HoldRow.reason, slot("reason")),
            HoldRow.until: peewee.fn.MAX(HoldRow.started_at, peewee.fn.MIN(HoldRow.until, slot("now"))),
        }
        self._leave = Write(database, lambda: HoldRow.update(ended).where(of_job, HoldRow.finished_at.is_null()))

    def add(self, build: Build, job: Job, new: NewProof) -> Proof:
        """Add a proof of a job that has ended. Raises TooManyProofs."""
        with self._database.write():
            if (self._count_open.one(organization_id=build.organization_id) or 0) >= _MOST_OPEN:
                raise TooManyProofs(f"{_MOST_OPEN} proofs of the organization have not ended: wait, or cancel one")
            now = self._database.now()
            proof_id = self._insert.insert(
                uuid=str(uuid4()),
                organization_id=build.organization_id,
                pipeline_id=build.pipeline_id,
                build_id=build.id,
                job_id=job.id,
                times=new.times,
                seconds=new.seconds,
                max_cents=new.max_cents,
                command=new.command,
                exit_counts=new.exit_counts,
                state=ProofState.RUNNING,
                opened_by=new.opened_by,
                budget_id=new.budget_id,
                created_at=now,
                expires_at=now + new.limit_seconds * SECOND,
            )
            for test in new.tests:
                self._insert_test.run(proof_id=proof_id, suite=test.suite, name=test.name)
            return written(self.get(proof_id))

    def get(self, proof_id: int) -> Proof | None:
        """Return a proof by row id."""
        return self._get.one(id=proof_id)

    def by_uuid(self, pipeline_id: int, uuid: str) -> Proof | None:
        """Return a proof of a pipeline."""
        return self._by_uuid.one(pipeline_id=pipeline_id, uuid=uuid)

    def open(self) -> list[Proof]:
        """Return the proofs that have not ended, oldest first."""
        return self._open.all()

    def of_build(self, build_id: int, limit: int) -> list[Proof]:
        """Return the proofs of a build's jobs, newest first."""
        return self._of_build.all(build_id=build_id, limit=limit)

    def of_test(self, pipeline_id: int, name: str, suite: str | None, limit: int) -> list[PastProof]:
        """Return the proofs of a test in a pipeline, newest first; without a suite those of all with the name."""
        if suite is None:
            return self._of_name.all(pipeline_id=pipeline_id, name=name, limit=limit)
        return self._of_test.all(pipeline_id=pipeline_id, name=name, suite=suite, limit=limit)

    def tests(self, proof_id: int) -> list[ProvedTest]:
        """Return the tests of a proof with their counts."""
        return self._tests.all(proof_id=proof_id)

    def runs(self, proof_id: int) -> list[ProofRun]:
        """Return the runs of a proof that have ended, by number."""
        return self._runs.all(proof_id=proof_id)

    def cents(self, proof: Proof) -> int:
        """Return what the runs of a proof that have ended cost."""
        return self._cents.one(job_id=proof.job_id, opened_by=proof.opener) or 0

    def record(self, proof: Proof, run: ProofRun, passed: Mapping[TestName, bool]) -> None:
        """Record a run with what it tells of tests, once, and end the proof with its last run."""
        with self._database.write():
            known = self.runs(proof.id)
            if run.number in {each.number for each in known}:
                return
            self._insert_run.run(
                proof_id=proof.id,
                number=run.number,
                exit_code=run.exit_code,
                milliseconds=run.milliseconds,
                trouble=run.trouble,
            )
            for test, outcome in passed.items():
                self._count.run(proof_id=proof.id, suite=test.suite, name=test.name, passed=outcome, failed=not outcome)
            if len(known) + 1 >= proof.times:
                self._end.run(id=proof.id, state=ProofState.FINISHED, reason=None, now=self._database.now())

    def end(self, proof_id: int, state: ProofState, reason: str) -> bool:
        """End a proof before its last run; False if it has ended."""
        with self._database.write():
            return self._end.run(id=proof_id, state=state, reason=reason, now=self._database.now()) == 1

    def leave_forks(self, proof: Proof) -> None:
        """End the holds of VMs that a process which has died left to a proof, free of charge."""
        with self._database.write():
            self._leave.run(job_id=proof.job_id, opened_by=proof.opener, reason=HoldEnd.LOST, now=self._database.now())
