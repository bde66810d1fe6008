"""Insertion of a planned graph: every job and edge of a new build."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.statements import Query, Slots, SqlValue, Write, first, insert_into, slot
from storage.models import EdgeRow, JobRow
from storage.records import JobState, NewJob, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.database.connection import Database
    from storage.records import Build

_NEW: Slots[NewJob] = Slots(NewJob, JobRow, shape=Slots(Shape, JobRow))


class JobInserter:
    """Inserts the jobs of a new build, inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._insert_job = Write(
            database,
            insert_into(
                JobRow,
                "disk",
                "exit_code",
                "error_code",
                "error_message",
                "attempts_before",
                "not_before",
                "awaited_image",
                "started_at",
                "finished_at",
            ),
        )
        self._insert_edge = Write(database, insert_into(EdgeRow))
        self._ids = Query(
            database,
            JobRow.select(JobRow.id).where(JobRow.build == slot("build_id")).order_by(JobRow.position),
            first,
        )

    def insert(self, build: Build, jobs: Sequence[NewJob], now: int) -> None:
        """Insert jobs, with their index in the list as position, and an edge for each dependency.

        The cached disks of an untrusted build have keys that only its pull request's builds have.
        """
        self._insert_job.run_many(_job_slots(job, position, build, now) for position, job in enumerate(jobs))
        ids = self._ids.all(build_id=build.id)
        self._insert_edge.run_many(
            {"from_id": ids[prerequisite], "to_id": job_id, "kind": kind, "continue_on_failure": continue_on_failure}
            for job_id, job in zip(ids, jobs, strict=True)
            for prerequisite, kind, continue_on_failure in job.depends_on
        )


def _job_slots(job: NewJob, position: int, build: Build, now: int) -> Mapping[str, SqlValue]:
    values = _NEW(job)
    ready = not job.depends_on and build.waits_for is None
    if job.cache_key is not None and build.untrusted_origin is not None:
        values["cache_key"] = f"{build.untrusted_origin}:{job.cache_key}"
    values |= {
        "uuid": str(uuid4()),
        "build_id": build.id,
        "organization_id": build.organization_id,
        "position": position,
        "state": JobState.SCHEDULED if ready else JobState.PENDING,
        "attempt": 0,
        "soft_failed": False,
        "cache_hit": False,
        "created_at": now,
        "scheduled_at": now if ready else None,
        "queued_at": now if ready else None,
    }
    return values
