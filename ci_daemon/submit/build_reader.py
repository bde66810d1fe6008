"""The records and logs of one build, of a service or of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ci_daemon.submit.client import Client
    from ci_daemon.submit.views import BuildView, JobView

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
        """Open a job's log from byte ``start`` on, waiting up to ``wait`` seconds for a first byte."""
        ...


class ServedBuild:
    """A build of a service, by the path of its record."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._path = path

    def build(self) -> BuildView:
        """Return the build."""
        return self._client.build(self._path)

    def jobs(self) -> list[JobView]:
        """Return the build's jobs in DAG creation order."""
        return self._client.jobs(self._path)

    def job(self, job_id: str) -> JobView:
        """Return one of the build's jobs."""
        return self._client.job(self._path, job_id)

    def log(self, job_id: str, start: int, wait: int) -> OpenLog:
        """Open a job's log from byte ``start`` on, waiting up to ``wait`` seconds for a first byte."""
        return self._client.log(f"{self._path}/jobs/{job_id}/log", start, wait)
