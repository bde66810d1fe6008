"""Insertion of a planned graph: every job and edge of a new build."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.models import EdgeRow, JobRow
from storage.records import JobState, NewJob
from storage.statements import Command, Query, SqlValue, first, insert_into, slot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.database import Database

__all__ = ["JobPlanter"]


class JobPlanter:
    """Inserts the jobs of a new build, inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._insert_job = Command(
            database,
            insert_into(
                JobRow,
                "disk",
                "exit_code",
                "error_code",
                "error_message",
                "not_before",
                "awaited_image",
                "started_at",
                "finished_at",
            ),
        )
        self._insert_edge = Command(database, insert_into(EdgeRow))
        self._ids = Query(
            database,
            JobRow.select(JobRow.id).where(JobRow.build == slot("build_id")).order_by(JobRow.position),
            first,
        )

    def plant(self, build_id: int, organization_id: int, jobs: Sequence[NewJob], now: int) -> None:
        """Insert jobs, with their index in the list as position, and an edge for each dependency."""
        self._insert_job.run_many(
            _job_slots(job, position, build_id, organization_id, now) for position, job in enumerate(jobs)
        )
        ids = self._ids.all(build_id=build_id)
        self._insert_edge.run_many(
            {"from_id": ids[prerequisite], "to_id": job_id, "kind": kind, "continue_on_failure": continue_on_failure}
            for job_id, job in zip(ids, jobs, strict=True)
            for prerequisite, kind, continue_on_failure in job.depends_on
        )


def _job_slots(job: NewJob, position: int, build_id: int, organization_id: int, now: int) -> Mapping[str, SqlValue]:
    return {
        "uuid": str(uuid4()),
        "build_id": build_id,
        "organization_id": organization_id,
        "position": position,
        "state": JobState.PENDING if job.depends_on else JobState.SCHEDULED,
        "attempt": 0,
        "step_key": job.step_key,
        "name": job.name,
        "image": job.image,
        "cpu": job.shape.cpu,
        "memory_gb": job.shape.memory_gb,
        "disk_gb": job.shape.disk_gb,
        "network": job.network,
        "timeout_seconds": job.timeout_seconds,
        "retry_policy": _json(job.retry_policy),
        "soft_fail_policy": _json(job.soft_fail_policy),
        "soft_failed": False,
        "artifacts": json.dumps(job.artifacts),
        "secrets": json.dumps(job.secrets),
        "cache_policy": job.cache_policy,
        "cache_key": job.cache_key,
        "cache_hit": False,
        "created_at": now,
        "scheduled_at": None if job.depends_on else now,
        "queued_at": None if job.depends_on else now,
        "env": json.dumps(dict(job.env)),
        "command": job.command,
    }


def _json(policy: Mapping[str, object] | None) -> str | None:
    return None if policy is None else json.dumps(dict(policy))
