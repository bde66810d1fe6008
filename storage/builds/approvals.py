"""Approvals: builds of pull requests from forks wait until somebody has looked at their commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Write, slot, written
from storage.errors import ApprovalNotAwaited
from storage.models import BuildRow
from storage.records import WaitsFor

if TYPE_CHECKING:
    from storage.builds.builds import Builds
    from storage.builds.concurrency import ConcurrencyGroups
    from storage.database.connection import Database
    from storage.records import Build


class Approvals:
    """Approves builds. An approval is of one build, and so of one commit. Safe in any thread."""

    def __init__(self, database: Database, builds: Builds, groups: ConcurrencyGroups) -> None:
        self._database = database
        self._builds = builds
        self._groups = groups
        self._approve = Write(
            database,
            BuildRow.update({BuildRow.approved_by: slot("by"), BuildRow.approved_at: slot("now")}).where(
                BuildRow.id == slot("id"),
                BuildRow.waits_for == WaitsFor.APPROVAL,
                BuildRow.finished_at.is_null(),
                BuildRow.cancel_requested == 0,
            ),
        )

    def approve(self, build_id: int, by: str) -> Build:
        """Let a build run, in the name of a person; return it. Raises ApprovalNotAwaited.

        It may still have to wait for its turn in its concurrency group.
        """
        with self._database.write():
            if not self._approve.run(id=build_id, by=by, now=self._database.now()):
                raise ApprovalNotAwaited(_refusal(written(self._builds.get(build_id))))
            self._groups.let_in(written(self._builds.get(build_id)))
            return written(self._builds.get(build_id))


def _refusal(build: Build) -> str:
    """Return why a build cannot be approved: somebody did already, or nobody has to."""
    if build.approved_by is None or build.approved_at is None:
        return "it does not wait for an approval"
    return f"{build.approved_by} approved it at {build.approved_at:%Y-%m-%d %H:%M:%S} UTC"
