"""The records and logs of a build, of the box or of a server."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_daemon.command.support.names import find_build
from ci_daemon.command.support.session import Failure
from ci_daemon.submit import BuildRecords, ServedBuild
from storage import RENDER_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.doors import Door
    from ci_daemon.command.support.names import BuildName
    from ci_daemon.command.support.session import Session
    from ci_daemon.submit import BuildReader
    from storage import Build, Storage

_MAX_CHUNK = 1 << 20
_POLL_SECONDS = 0.3


@contextmanager
def build_reader(session: Session, name: BuildName) -> Iterator[BuildReader]:
    """Open the records and logs of a build. Raises Failure if its logs are expired."""
    if session.server() is not None:
        with session.connection() as connection:
            yield ServedBuild(connection, name.names)
        return
    with session.owners_door() as door, session.storage_without_billing() as storage:
        build = find_build(storage, name)
        if build.logs_expired_at is not None:
            raise Failure(f"the logs of build {name} were kept until {build.logs_expired_at:%Y-%m-%d} ([retention])")
        yield BuildFiles(door, storage, build)


class BuildFiles(BuildRecords):
    """A build in a storage that another process may change. Safe in any thread."""

    def __init__(self, door: Door, storage: Storage, build: Build) -> None:
        names = {"org": build.organization_slug, "pipeline": build.pipeline_slug, "number": str(build.number)}
        super().__init__(door, names)
        self._storage = storage
        self._uuid = build.uuid

    @contextmanager
    def log(
        self, job_id: str, start: int, wait: int, service: str | None = None
    ) -> Iterator[tuple[Iterator[bytes], bool]]:
        """Open a job's log, or that of its ``service``, from byte ``start`` on.

        It waits up to ``wait`` seconds for a first byte.

        Whether the job is over is read first, so that the bytes include all that was written before its end.
        """
        log = self._storage.logs.of(self._uuid, job_id, service)
        deadline = time.monotonic() + wait
        ended, chunk = self._ended(job_id), log.read(start, _MAX_CHUNK)
        while not ended and not chunk and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            ended, chunk = self._ended(job_id), log.read(start, _MAX_CHUNK)
        yield iter((chunk,) if chunk else ()), ended and len(chunk) < _MAX_CHUNK

    def _ended(self, job_id: str) -> bool:
        return (self.build() if job_id == RENDER_LOG else self.job(job_id)).state.terminal
