"""A storage with a pipeline, whose jobs tests take through their states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

from storage import (
    Build,
    BuildState,
    EdgeKind,
    Job,
    JobState,
    Lease,
    NewBuild,
    NewJob,
    Outcome,
    Pipeline,
    Storage,
)
from tests.clock import ManualClock
from tests.records import assign, new_job, new_pipeline, started

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
BUILDS_IN = EdgeKind.BUILDS_IN
DEPENDS_ON = EdgeKind.DEPENDS_ON


@dataclass(frozen=True)
class World:
    """A storage with one pipeline, and helpers that take its jobs through their states."""

    storage: Storage
    clock: ManualClock
    pipeline: Pipeline
    names: count[int] = count(1)  # noqa: RUF009 - shared, so that names differ between tests

    def build(self, *jobs: NewJob, pipeline: Pipeline | None = None, **fields: Any) -> Build:
        new = NewBuild(**({"branch": "main", "commit": "c0ffee"} | fields))
        return self.storage.builds.create(pipeline or self.pipeline, new, jobs or (new_job(),))

    def other_pipeline(self, organization: str) -> Pipeline:
        """Make an organization of another owner, with a pipeline."""
        return new_pipeline(self.storage, organization, f"owner-{next(self.names)}@example.org")

    def jobs(self, build: Build) -> list[Job]:
        return self.storage.jobs.of_build(build.id)

    def job(self, build: Build) -> Job:
        return self.jobs(build)[0]

    def state(self, job: Job) -> JobState:
        found = self.storage.jobs.get(job.id)
        assert found is not None
        return found.state

    def assign(self, job: Job, **fields: Any) -> Lease | None:
        return assign(self.storage, job, **fields)

    def start(self, job: Job) -> Lease:
        """Take a scheduled job to ``running``; return its lease."""
        return started(self.storage, job)

    def finish_build(self, build: Build) -> None:
        """Pass a build, whatever the state of its jobs."""
        assert self.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)

    def finish(
        self,
        job: Job,
        lease: Lease | None,
        *,
        frm: JobState = JobState.RUNNING,
        to: JobState = JobState.PASSED,
        billable: bool = True,
        held_seconds: int = 0,
        **outcome: Any,
    ) -> bool:
        came_of_it = Outcome(**({"exit_code": 0} | outcome))
        return self.storage.jobs.finish(
            job.id,
            frm,
            to,
            came_of_it,
            lease_id=lease.id if lease else None,
            billable=billable,
            held_seconds=held_seconds,
        )
