"""Builds of a server."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

from ci_daemon.command.support.session import Failure
from ci_daemon.remote import operations
from ci_daemon.submit.build_reader import ServedBuild

if TYPE_CHECKING:
    from ci_daemon.command.support.names import BuildName, PipelineName
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.operation import Operation
    from ci_daemon.remote.views import BuildView, JobView
    from ci_daemon.submit.build_reader import BuildReader

__all__ = ["ServerBuilds"]


class ServerBuilds:
    """Builds by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def newest(self, pipeline: PipelineName, limit: int) -> list[BuildView]:
        """Return the newest builds of a pipeline, newest first."""
        return list(islice(self._connection.items(operations.LIST_BUILDS, asdict(pipeline)), limit))

    def get(self, name: BuildName) -> BuildView:
        """Return a build."""
        return self._call(operations.GET_BUILD, name)

    def jobs(self, name: BuildName) -> list[JobView]:
        """Return the jobs of a build, in the order of the plan."""
        return self._connection.call(operations.LIST_JOBS, asdict(name)).data

    def reader(self, name: BuildName) -> BuildReader:
        """Return the records and logs of a build, to show or follow them."""
        return ServedBuild(self._connection, name.org, name.pipeline, name.number)

    def cancel(self, name: BuildName) -> BuildView:
        """Begin to cancel a build. The API answers for a finished build, too."""
        before = self.get(name)
        if before.over:
            raise Failure(f"build {name} is {before.state} already: nothing to cancel")
        return self._call(operations.CANCEL_BUILD, name)

    def approve(self, name: BuildName) -> BuildView:
        """Let a build run that waits for an approval."""
        return self._call(operations.APPROVE_BUILD, name)

    def rebuild(self, name: BuildName) -> BuildView:
        """Make a new build of the same source, pipeline and environment."""
        return self._call(operations.REBUILD_BUILD, name)

    def retry(self, name: BuildName) -> BuildView:
        """Run again what did not pass in a finished build."""
        return self._call(operations.RETRY_BUILD, name)

    def _call(self, operation: Operation[BuildView], name: BuildName) -> BuildView:
        return self._connection.call(operation, asdict(name))
