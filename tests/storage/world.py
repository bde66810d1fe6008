"""Helpers for the storage's tests: advance the clock, make builds, take jobs through their states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from storage import (
    Build,
    BuildState,
    EdgeKind,
    Job,
    JobState,
    Lease,
    NewBuild,
    NewJob,
    NewPipeline,
    Outcome,
    Pipeline,
    Shape,
    Storage,
)

if TYPE_CHECKING:
    pass

BUILDS_IN = EdgeKind.BUILDS_IN
DEPENDS_ON = EdgeKind.DEPENDS_ON


class HandClock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self._now = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._now.timestamp()

    def turn(self, **span: float) -> datetime:
        self._now += timedelta(**span)
        return self._now


def new_job(step_key: str = "step", *depends_on: tuple[int, EdgeKind, bool], **fields: Any) -> NewJob:
    given: dict[str, Any] = {
        "name": step_key,
        "command": "true",
        "image": "debian:12",
        "env": {},
        "shape": Shape(),
        "depends_on": depends_on,
    }
    return NewJob(step_key=step_key, **(given | fields))


@dataclass(frozen=True)
class World:
    """A storage with one pipeline, and helpers that take its jobs through their states."""

    storage: Storage
    clock: HandClock
    pipeline: Pipeline
    names: count[int] = count(1)  # noqa: RUF009 - shared, so that names differ between tests

    def build(self, *jobs: NewJob, pipeline: Pipeline | None = None, **fields: Any) -> Build:
        new = NewBuild(**({"branch": "main", "commit": "c0ffee"} | fields))
        return self.storage.builds.create(pipeline or self.pipeline, new, jobs or (new_job(),))

    def other_pipeline(self, organization: str) -> Pipeline:
        """Make an organization of another owner, with a pipeline."""
        owner = self.storage.users.create(f"owner-{next(self.names)}@example.org", "Owner")
        made = self.storage.organizations.create(organization, "", owner.id)
        return self.storage.pipelines.create(made.id, NewPipeline("web", "Web", "r", "main"))

    def jobs(self, build: Build) -> list[Job]:
        return self.storage.jobs.of_build(build.id)

    def job(self, build: Build) -> Job:
        return self.jobs(build)[0]

    def state(self, job: Job) -> JobState:
        found = self.storage.jobs.get(job.id)
        assert found is not None
        return found.state

    def assign(self, job: Job, **fields: Any) -> Lease | None:
        given: dict[str, Any] = {
            "provider": "sandbox",
            "image": job.image,
            "shape": job.shape,
            "network": job.network,
            "warm_lease_id": None,
            "lease_uuid": f"vm-{next(self.names)}",
        }
        return self.storage.leases.assign(job.id, **(given | fields))

    def start(self, job: Job) -> Lease:
        """Take a scheduled job to ``running``; return its lease."""
        lease = self.assign(job)
        assert lease is not None
        assert self.storage.leases.active(lease.id)
        assert self.storage.leases.start(lease.id, job.id)
        return lease

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
