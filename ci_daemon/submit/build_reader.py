"""The records and logs of one build, of a service or of this process."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from api.operations import LOG_PATH, RENDER_LOG_PATH, SERVICE_LOG_PATH, builds, jobs
from ci_daemon.remote.errors import RequestFailed
from storage import RENDER_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from api.doors import Door
    from api.operations import BuildRecord, JobRecord
    from ci_daemon.remote.connection import Connection

OpenLog: TypeAlias = "AbstractContextManager[tuple[Iterator[bytes], bool]]"
"""A log from some byte on: its chunks as they arrive, and whether they are its last."""


class BuildReader(Protocol):
    """One build, to be followed. Safe in any thread.

    All methods raise RequestFailed if a service refuses, and ServiceUnreachable.
    """

    def build(self) -> BuildRecord:
        """Return the build."""
        ...

    def jobs(self) -> list[JobRecord]:
        """Return the build's jobs in DAG creation order."""
        ...

    def job(self, job_id: str) -> JobRecord:
        """Return one of the build's jobs."""
        ...

    def log(self, job_id: str, start: int, wait: int, service: str | None = None) -> OpenLog:
        """Open a job's log, or that of its ``service``, from byte ``start`` on.

        It waits up to ``wait`` seconds for a first byte.

        ``RENDER_LOG`` in the place of a job is the log of the build's rendering, which may be empty.
        """
        ...


class BuildRecords:
    """The records of a build behind a door."""

    def __init__(self, door: Door, names: Mapping[str, str]) -> None:
        self._door = door
        self._names = names

    def build(self) -> BuildRecord:
        """Return the build."""
        return self._door.perform(builds.get_build, self._names)

    def jobs(self) -> list[JobRecord]:
        """Return the build's jobs in DAG creation order."""
        return list(self._door.rows(jobs.list_jobs, self._names))

    def job(self, job_id: str) -> JobRecord:
        """Return one of the build's jobs."""
        return self._door.perform(jobs.get_job, {**self._names, "job_id": job_id})


class ServedBuild(BuildRecords):
    """A build of a service."""

    def __init__(self, connection: Connection, names: Mapping[str, str]) -> None:
        super().__init__(connection, names)
        self._connection = connection

    @contextmanager
    def log(
        self, job_id: str, start: int, wait: int, service: str | None = None
    ) -> Iterator[tuple[Iterator[bytes], bool]]:
        """Open a job's log, that of its ``service``, or that of the rendering, from byte ``start`` on.

        It waits up to ``wait`` seconds for a first byte. A build that was not rendered has an empty one.
        """
        rendering = job_id == RENDER_LOG
        names = self._names if rendering else {**self._names, "job_id": job_id}
        path = RENDER_LOG_PATH if rendering else LOG_PATH
        if service is not None:
            path, names = SERVICE_LOG_PATH, {**names, "service": service}
        with ExitStack() as stack:
            try:
                chunks, headers = stack.enter_context(self._connection.stream(path, names, start, wait))
            except RequestFailed as error:
                if error.code != "render_log_not_found":
                    raise
                chunks, complete = iter(()), True
            else:
                complete = headers.get("X-Log-Complete") == "true"
            yield chunks, complete
