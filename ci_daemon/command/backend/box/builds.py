"""Builds of the box."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ci_daemon.command.backend.box.pending import pending_reason
from ci_daemon.command.support.lookup import find_build, find_pipeline
from ci_daemon.command.support.session import Failure
from ci_daemon.remote.views import BuildView, JobView
from storage import ApprovalNotAwaited, immutable

if TYPE_CHECKING:
    from ci_daemon.command.support.names import BuildName, PipelineName
    from ci_daemon.command.support.session import Session
    from ci_daemon.submit.build_reader import BuildReader
    from storage import Build, Storage

__all__ = ["BoxBuild", "BoxBuilds"]


@immutable
class BoxBuild(BuildView):
    """A build with what only the box knows: the name of its files, and whether a cancel is requested."""

    build_id: str | None = None
    cancel_requested: bool = False


class BoxBuilds:
    """Builds in a storage."""

    def __init__(self, session: Session, storage: Storage) -> None:
        self._session = session
        self._storage = storage

    def newest(self, pipeline: PipelineName, limit: int) -> list[BuildView]:
        """Return the newest builds of a pipeline, newest first."""
        found = find_pipeline(self._storage, pipeline.org, pipeline.pipeline)
        return [self._view(each) for each in self._storage.builds.page(found.id, limit, None).rows]

    def get(self, name: BuildName) -> BuildView:
        """Return a build."""
        return self._view(find_build(self._storage, name))

    def jobs(self, name: BuildName) -> list[JobView]:
        """Return the jobs of a build, in the order of the plan."""
        return [JobView.of(each) for each in self._storage.jobs.of_build(find_build(self._storage, name).id)]

    def reader(self, name: BuildName) -> BuildReader:
        """Return the records and logs of a build, to show or follow them. Raises Failure if they are expired."""
        # Only here, because the other commands follow nothing.
        from ci_daemon.command.backend.box.build_files import BuildFiles  # noqa: PLC0415

        build = find_build(self._storage, name)
        if build.logs_expired_at is not None:
            raise Failure(f"the logs of build {name} were kept until {build.logs_expired_at:%Y-%m-%d} ([retention])")
        return BuildFiles(self._storage, build)

    def cancel(self, name: BuildName) -> BuildView:
        """Begin to cancel a build; a service that is stopped does it when it starts."""
        found = find_build(self._storage, name)
        if not self._storage.builds.request_cancel(found.id):
            raise Failure(f"build {name} is {found.state} already: nothing to cancel")
        return self.get(name)

    def approve(self, name: BuildName) -> BuildView:
        """Let a build run that waits for an approval."""
        try:
            return self._view(
                self._storage.approvals.approve(find_build(self._storage, name).id, self._session.operator)
            )
        except ApprovalNotAwaited as error:
            raise Failure(f"build {name} cannot be approved: {error}") from None

    def rebuild(self, name: BuildName) -> BuildView:
        """Make a new build of the same source, pipeline and environment."""
        # Only here, because the imports for planning take longer than all others of these commands.
        from api import ApiError, add_rebuild  # noqa: PLC0415

        with self._session.storage() as storage:
            try:
                return self._view(add_rebuild(storage, self._session.config().ir, find_build(storage, name), "cli"))
            except ApiError as error:
                raise Failure(f"build {name} cannot be built again: {error.message}") from None

    def retry(self, name: BuildName) -> BuildView:
        """Run again what did not pass in a finished build."""
        # Only here, because the imports for planning take longer than all others of these commands.
        from api import ApiError, retry_build  # noqa: PLC0415

        with self._session.storage() as storage:
            try:
                return self._view(retry_build(storage, find_build(storage, name)))
            except ApiError as error:
                raise Failure(f"build {name} cannot be retried: {error.message}") from None

    def _view(self, build: Build) -> BoxBuild:
        view = BoxBuild.of(build, pending_reason(self._storage, build))
        return replace(view, build_id=build.uuid, cancel_requested=build.cancel_requested)
