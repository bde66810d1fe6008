"""The records and logs of a build of the box, read from its storage."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_daemon.command.backend.box.pending import pending_reason
from ci_daemon.remote.views import BuildView, JobView
from storage import RENDER_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage import Build, Job, Storage

__all__ = ["BuildFiles"]

_MAX_CHUNK = 1 << 20
_POLL_SECONDS = 0.3


class BuildFiles:
    """A build in a storage that another process may change. Safe in any thread."""

    def __init__(self, storage: Storage, build: Build) -> None:
        self._storage = storage
        self._build = build

    def build(self) -> BuildView:
        """Return the build."""
        found = self._storage.builds.get(self._build.id) or self._build
        return BuildView.of(found, pending_reason(self._storage, found))

    def jobs(self) -> list[JobView]:
        """Return the build's jobs in DAG creation order."""
        return [JobView.of(each) for each in self._storage.jobs.of_build(self._build.id)]

    def job(self, job_id: str) -> JobView:
        """Return one of the build's jobs."""
        return JobView.of(self._stored(job_id))

    @contextmanager
    def log(self, job_id: str, start: int, wait: int) -> Iterator[tuple[Iterator[bytes], bool]]:
        """Open a job's log from byte ``start`` on, waiting up to ``wait`` seconds for a first byte.

        Whether the job is over is read first, so that the bytes include all that was written before its end.
        """
        log = self._storage.logs.reader(self._build.uuid, job_id)
        deadline = time.monotonic() + wait
        ended, chunk = self._ended(job_id), log.read(start, _MAX_CHUNK)
        while not ended and not chunk and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            ended, chunk = self._ended(job_id), log.read(start, _MAX_CHUNK)
        yield iter((chunk,) if chunk else ()), ended and len(chunk) < _MAX_CHUNK

    def _ended(self, job_id: str) -> bool:
        return self.build().over if job_id == RENDER_LOG else self._stored(job_id).state.terminal

    def _stored(self, job_id: str) -> Job:
        job = self._storage.jobs.by_uuid(job_id)
        assert job is not None  # noqa: S101 - no job of a build is ever deleted
        return job
