"""The records and logs of one build, of a service or of this process."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ci_daemon.remote import operations
from ci_daemon.remote.failures import RequestFailed
from storage import RENDER_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.views import BuildView, JobView

__all__ = ["BuildReader", "OpenLog", "ServedBuild"]

OpenLog: TypeAlias = "AbstractContextManager[tuple[Iterator[bytes], bool]]"
"""A log from some byte on: its chunks as they arrive, and whether they are its last."""


class BuildReader(Protocol):
    """One build, to be followed. Safe in any thread.

    All methods raise RequestFailed if a service refuses, and ServiceUnreachable.
    """

    def build(self) -> BuildView:
        """Return the build."""
        ...

    def jobs(self) -> list[JobView]:
        """Return the build's jobs in DAG creation order."""
        ...

    def job(self, job_id: str) -> JobView:
        """Return one of the build's jobs."""
        ...

    def log(self, job_id: str, start: int, wait: int) -> OpenLog:
        """Open a job's log from byte ``start`` on, waiting up to ``wait`` seconds for a first byte.

        ``RENDER_LOG`` in the place of a job is the log of the build's rendering, which may be empty.
        """
        ...


class ServedBuild:
    """A build of a service."""

    def __init__(self, connection: Connection, organization: str, pipeline: str, number: int) -> None:
        self._connection = connection
        self._names: dict[str, object] = {"org": organization, "pipeline": pipeline, "number": number}

    def build(self) -> BuildView:
        """Return the build."""
        return self._connection.call(operations.GET_BUILD, self._names)

    def jobs(self) -> list[JobView]:
        """Return the build's jobs in DAG creation order."""
        return self._connection.call(operations.LIST_JOBS, self._names).data

    def job(self, job_id: str) -> JobView:
        """Return one of the build's jobs."""
        return self._connection.call(operations.GET_JOB, {**self._names, "job_id": job_id})

    @contextmanager
    def log(self, job_id: str, start: int, wait: int) -> Iterator[tuple[Iterator[bytes], bool]]:
        """Open a job's log, or that of the rendering, from byte ``start`` on.

        It waits up to ``wait`` seconds for a first byte. A build that was not rendered has an empty one.
        """
        rendering = job_id == RENDER_LOG
        names = self._names if rendering else {**self._names, "job_id": job_id}
        operation = operations.GET_RENDER_LOG if rendering else operations.GET_LOG
        with ExitStack() as stack:
            try:
                chunks, headers = stack.enter_context(self._connection.stream(operation, names, start, wait))
            except RequestFailed as error:
                if error.code != "render_log_not_found":
                    raise
                chunks, complete = iter(()), True
            else:
                complete = headers.get("X-Log-Complete") == "true"
            yield chunks, complete
