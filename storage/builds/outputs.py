"""Outputs: the variables that jobs give to those that need them (engine.md, "Outputs")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Columns, Query, Slots, Write, insert_into, slot
from storage.models.builds import EdgeRow, JobOutputsRow, JobRow
from storage.models.leases import CacheRow, SnapshotRow
from storage.records.jobs import GivenOutputs, JobOutputs

if TYPE_CHECKING:
    from storage.database.connection import Database

_OUTPUTS = Columns.of(JobOutputs, JobOutputsRow)
_GIVEN = Columns(GivenOutputs, JobRow.position, JobRow.step_key, JobOutputsRow.variables)
_NEW: Slots[JobOutputs] = Slots(JobOutputs, JobOutputsRow)


class Outputs:
    """The outputs of jobs. Safe in any thread.

    They are kept for as long as the log of their build, and for as long as another job may pass with the job's disk.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = JobOutputsRow.job == slot("job_id")
        self._of_job = Query(database, lambda: JobOutputsRow.select(*_OUTPUTS.selected).where(this), _OUTPUTS)
        self._given = Query(
            database,
            lambda: (
                JobOutputsRow.select(*_GIVEN.selected)
                .join(JobRow, on=JobRow.id == JobOutputsRow.job)
                .join(EdgeRow, on=EdgeRow.from_job == JobRow.id)
                .where(EdgeRow.to_job == slot("job_id"))
            ),
            _GIVEN,
        )
        self._insert = Write(database, lambda: insert_into(JobOutputsRow, "expired").on_conflict_replace())
        self._delete = Write(database, lambda: JobOutputsRow.delete().where(this))
        disks = SnapshotRow.select(SnapshotRow.name).where(SnapshotRow.job == slot("job_id"))
        self._uncache = Write(database, lambda: CacheRow.delete().where(CacheRow.snapshot.in_(disks)))

    def of_job(self, job_id: int) -> JobOutputs | None:
        """Return the outputs of a job; None if its last command gave none."""
        return self._of_job.one(job_id=job_id)

    def given_to(self, job_id: int) -> list[GivenOutputs]:
        """Return the outputs of the jobs that a job needs, in the order of the build."""
        return sorted(self._given.all(job_id=job_id), key=lambda given: given.position)

    def store(self, outputs: JobOutputs) -> None:
        """Record the outputs of a job in place of earlier ones."""
        with self._database.write():
            self._insert.run(**_NEW(outputs))

    def discard(self, job_id: int) -> None:
        """Remove the outputs of a job whose attempt does not count, or that runs again.

        Its disks are in the cache no more: who got one would lack them.
        """
        if self.of_job(job_id) is not None:
            with self._database.write():
                self._delete.run(job_id=job_id)
                self._uncache.run(job_id=job_id)

    def inherit(self, from_job_id: int, to_job_id: int, build_id: int) -> None:
        """Give a job the outputs of another job, in place of its own. Part of the caller's transaction."""
        left = self.of_job(from_job_id)
        with self._database.write():
            self._delete.run(job_id=to_job_id)
            if left is not None:
                self._insert.run(**_NEW(JobOutputs(to_job_id, build_id, left.variables, left.error)))
