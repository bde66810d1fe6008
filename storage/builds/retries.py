"""Retries of finished builds (wire-decisions.md, "Rebuilds and retries")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Query, Write, first, slot
from storage.errors import BuildBusy, BuildNotFinished
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import HoldRow, LeaseRow
from storage.records.jobs import JobState
from storage.records.leases import LeaseState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.billing.holds import Holds
    from storage.builds.concurrency import ConcurrencyGroups
    from storage.builds.gates import Gates
    from storage.database.connection import Database
    from storage.records.builds import Build, BuildState
    from storage.records.jobs import Job
    from storage.source_hosts.origins import BuildOrigins


class Retries:
    """The only way of a job from a final state back to an unfinished one. Safe in any thread."""

    def __init__(
        self, database: Database, holds: Holds, groups: ConcurrencyGroups, origins: BuildOrigins, gates: Gates
    ) -> None:
        self._database = database
        self._holds = holds
        self._groups = groups
        self._origins = origins
        self._gates = gates
        this_build, this_job = BuildRow.id == slot("id"), JobRow.id == slot("id")
        held = HoldRow.select(HoldRow.lease).where(HoldRow.lease == LeaseRow.id, HoldRow.finished_at.is_null())
        self._live = Query(
            database,
            lambda: (
                LeaseRow.select(LeaseRow.id)
                .join(JobRow, on=JobRow.id == LeaseRow.job)
                .where(JobRow.build == slot("build_id"), LeaseRow.state != LeaseState.ENDED, ~peewee.fn.EXISTS(held))
            ),
            first,
        )
        self._reopen = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.state: slot("state"),
                    BuildRow.waits_for: slot("waits_for"),
                    BuildRow.cancel_requested: 0,
                    BuildRow.started_at: None,
                    BuildRow.finished_at: None,
                    BuildRow.recorded_at: None,
                    BuildRow.told_at: None,
                    BuildRow.error_code: None,
                    BuildRow.error_message: None,
                    BuildRow.log_bytes: None,
                    BuildRow.artifacts_expired_at: None,
                    BuildRow.budget_id: slot("budget_id"),
                }
            ).where(
                this_build,
                BuildRow.finished_at.is_null(is_null=False),
                BuildRow.logs_expired_at.is_null(),
                (BuildRow.has_source == 0) | BuildRow.source_expired_at.is_null(),
                BuildRow.artifacts_expired_at.is_null() | BuildRow.artifact_bytes.is_null(),
            ),
        )
        self._again = Write(
            database,
            lambda: JobRow.update(
                {
                    JobRow.state: slot("new"),
                    JobRow.attempts_before: JobRow.attempt,
                    JobRow.disk: None,
                    JobRow.exit_code: None,
                    JobRow.error_code: None,
                    JobRow.error_message: None,
                    JobRow.soft_failed: 0,
                    JobRow.cache_hit: 0,
                    JobRow.image_digest: None,
                    JobRow.service_image_digests: "{}",
                    JobRow.not_before: None,
                    JobRow.awaited_image: None,
                    JobRow.awaits_lock: JobRow.lock.is_null(is_null=False),
                    JobRow.scheduled_at: slot("scheduled_at"),
                    JobRow.turn_at: slot("scheduled_at") + JobRow.yields,
                    JobRow.queued_at: slot("scheduled_at"),
                    JobRow.started_at: None,
                    JobRow.finished_at: None,
                }
            ).where(this_job, JobRow.state == slot("old"), JobRow.attempt == slot("attempt")),
        )

    def begin(
        self,
        build: Build,
        state: BuildState,
        jobs: Sequence[Job],
        again: Mapping[int, JobState],
        budget_id: int | None = None,
    ) -> None:
        """Reopen a finished build in ``state``, with the jobs of ``again`` in their new states.

        All in one transaction. ``jobs`` are the build's as the caller saw them. The holds of these jobs' VMs end.
        Raises BuildNotFinished if the build was retried meanwhile or its files have expired, and BuildBusy while it
        still has a VM that is not held.

        A build that was never approved waits for that again, and one of a concurrency group for its turn; then its jobs
        are ``pending``. The gates of the jobs are asked again. From now on the budget of an API key pays, if one is
        given.
        """
        with self._database.write():
            wait = self._groups.wait_of(build)
            if not self._reopen.run(id=build.id, state=state, waits_for=wait, budget_id=budget_id):
                raise BuildNotFinished(f"build {build.number} was retried, or its files expired, just now")
            if self._live.one(build_id=build.id) is not None:
                raise BuildBusy(f"the last VM of build {build.number} is being destroyed: try again")
            self._origins.report_again(build.id)
            now = self._database.now()
            for job in jobs:
                if job.id not in again:
                    continue
                new = again[job.id] if wait is None else JobState.PENDING
                scheduled_at = now if new is JobState.SCHEDULED else None
                if not self._again.run(
                    id=job.id, old=job.state, new=new, attempt=job.attempt, scheduled_at=scheduled_at
                ):
                    raise BuildNotFinished(f"build {build.number} was changed just now")
                self._holds.release(job.id)
                self._gates.forget(job.id)
