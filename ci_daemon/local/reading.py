"""A local build as a follower reads it: from the storage and the engine of this process."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from api.operations import BuildRecord, JobRecord
from storage import JobErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors import Engine
    from storage import Build, Job, Storage

_MAX_CHUNK = 1 << 20


class LocalBuild:
    """A build of this process. Safe in any thread."""

    def __init__(self, storage: Storage, engine: Engine, build: Build) -> None:
        self._storage = storage
        self._engine = engine
        self._build = build

    def build(self) -> BuildRecord:
        """Return the build."""
        return BuildRecord.of(self._storage.builds.get(self._build.id) or self._build)

    def jobs(self) -> list[JobRecord]:
        """Return the build's jobs in DAG creation order."""
        return [self._view(job) for job in self._storage.jobs.of_build(self._build.id)]

    def job(self, job_id: str) -> JobRecord:
        """Return one of the build's jobs."""
        return self._view(self._stored(job_id))

    @contextmanager
    def log(
        self, job_id: str, start: int, wait: int, service: str | None = None
    ) -> Iterator[tuple[Iterator[bytes], bool]]:
        """Open a job's log, or that of its ``service``, from byte ``start`` on.

        It waits up to ``wait`` seconds for a first byte.

        Whether the job is over is read first, so that the bytes include all that was written before its end.
        """
        log = self._storage.logs.of(self._build.uuid, job_id, service)
        with self._engine.watch(job_id) as watch:
            ended, chunk = self._stored(job_id).state.terminal, log.read(start, _MAX_CHUNK)
            while not ended and not chunk and watch.wait(wait):
                ended, chunk = self._stored(job_id).state.terminal, log.read(start, _MAX_CHUNK)
        yield iter((chunk,)), ended and len(chunk) < _MAX_CHUNK

    def _stored(self, job_id: str) -> Job:
        job = self._storage.jobs.by_uuid(job_id)
        assert job is not None  # noqa: S101 - no job of a build is ever deleted
        return job

    def _view(self, job: Job) -> JobRecord:
        return JobRecord.of(in_words_of_here(job), self._engine.pending_reason(job))


def in_words_of_here(job: Job) -> Job:
    """Return a job as a local run tells of it: a gate of a generated one is refused, as nobody is asked.

    Jobs of the pipeline's own file that have a gate are skipped before the run begins.
    """
    if job.error_code != JobErrorCode.ENVIRONMENT_NOT_FOUND:
        return job
    why = f'it deploys to "{job.environment}": this run has no approvals, and deploys nothing; the service does'
    return replace(job, error_code=JobErrorCode.GATE_REJECTED, error_message=why)
