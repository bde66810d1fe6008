"""Builds, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ci_daemon.command.support.names import BuildName, PipelineName
    from ci_daemon.remote.views import BuildView, JobView
    from ci_daemon.submit.build_reader import BuildReader

__all__ = ["Builds"]


class Builds(Protocol):
    """Builds of pipelines. All methods raise Failure, RequestFailed and StorageError."""

    def newest(self, pipeline: PipelineName, limit: int) -> list[BuildView]:
        """Return the newest builds of a pipeline, newest first."""
        ...

    def get(self, name: BuildName) -> BuildView:
        """Return a build."""
        ...

    def jobs(self, name: BuildName) -> list[JobView]:
        """Return the jobs of a build, in the order of the plan."""
        ...

    def reader(self, name: BuildName) -> BuildReader:
        """Return the records and logs of a build, to show or follow them."""
        ...

    def cancel(self, name: BuildName) -> BuildView:
        """Begin to cancel a build."""
        ...

    def approve(self, name: BuildName) -> BuildView:
        """Let a build run that waits for an approval."""
        ...

    def rebuild(self, name: BuildName) -> BuildView:
        """Make a new build of the same source, pipeline and environment."""
        ...

    def retry(self, name: BuildName) -> BuildView:
        """Run again what did not pass in a finished build."""
        ...
