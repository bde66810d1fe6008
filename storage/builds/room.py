"""The room of an organization for more builds: bounds of its unfinished ones and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import peewee

from storage.database.statements import Query, first, slot
from storage.errors import TooManyBuilds
from storage.models.builds import BuildRow
from storage.models.pipelines import PipelineRow

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.files.sources import Sources
    from storage.settings import BuildSettings

_GB = 2**30
_KNOWN_MICROS = 1_000_000
"""For how long a count is known: a build that runs again, or fetches its source, is no new one."""


class _Counted(NamedTuple):
    """The most that an organization has when ``newest`` is the id of the newest build of all."""

    at: int
    newest: int
    builds: int
    bytes: int


class BuildRoom:
    """Tells whether an organization may have another build. Safe in any thread.

    It is asked once for a request or commit, before any work. So requests of one moment, and the other pipelines of a
    commit, may go beyond the bounds: a commit is built whole, however many pipelines it declares.

    All that have not ended are counted once a second, or where what came since may be too much. Else each new build
    would cost the more, the more wait.
    """

    def __init__(self, database: Database, sources: Sources, settings: BuildSettings) -> None:
        self._database = database
        self._sources = sources
        self.settings = settings
        self._counted: dict[tuple[int, bool], _Counted] = {}
        unfinished = (
            BuildRow.select()
            .join(PipelineRow)
            .where(
                PipelineRow.organization == slot("organization_id"),
                PipelineRow.deleted_at.is_null(),  # no pipeline is deleted that has unfinished builds
                BuildRow.finished_at.is_null(),
                BuildRow.from_fork >= slot("from_fork"),
            )
        )
        self._count = Query(database, lambda: unfinished.select(peewee.fn.COUNT(BuildRow.id)), first)
        self._with_source = Query(
            database, lambda: unfinished.select(BuildRow.uuid).where(BuildRow.has_source == 1), lambda row: str(row[0])
        )
        self._newer = Query(
            database,
            lambda: BuildRow.select(BuildRow.id, BuildRow.uuid, BuildRow.has_source).where(
                BuildRow.id > slot("newest")
            ),
            tuple,
        )
        self._newest = Query(
            database, lambda: BuildRow.select(peewee.fn.COALESCE(peewee.fn.MAX(BuildRow.id), 0)), first
        )

    def require(self, organization_id: int, *, from_fork: bool = False) -> None:
        """Raise TooManyBuilds if an organization may not have another build now.

        Strangers can make builds ``from_fork``, which may be half of all and have half of the bytes.
        """
        share, of_what = (2, "builds of pull requests from forks") if from_fork else (1, "builds")
        most, most_gb = max(1, self.settings.max_unfinished // share), self.settings.max_source_gb / share
        key = organization_id, from_fork
        counted = self._count_newer(self._counted.get(key))
        if counted is None or counted.builds >= most or counted.bytes >= most_gb * _GB:
            counted = self._count_all(organization_id, from_fork=from_fork)
        self._counted[key] = counted
        if counted.builds >= most:
            raise TooManyBuilds(f"{counted.builds} {of_what} of the organization have not ended, of {most} at most")
        if (taken := counted.bytes) >= most_gb * _GB:
            raise TooManyBuilds(
                f"the sources of {of_what} of the organization that have not ended take {taken / _GB:.1f} GB, of"
                f" {most_gb:g} GB at most"
            )

    def _count_newer(self, counted: _Counted | None) -> _Counted | None:
        """Add all builds that came since, those of others, too; None if the count is old."""
        if counted is None or not 0 <= self._database.uptime() - counted.at < _KNOWN_MICROS:
            return None
        newer = self._newer.all(newest=counted.newest)
        return _Counted(
            counted.at,
            max((each[0] for each in newer), default=counted.newest),
            counted.builds + len(newer),
            counted.bytes + self._sources.bytes_of_all(uuid for _, uuid, has_source in newer if has_source),
        )

    def _count_all(self, organization_id: int, *, from_fork: bool) -> _Counted:
        newest = self._newest.one() or 0  # before the others, so that none is left out that comes meanwhile
        return _Counted(
            self._database.uptime(),
            newest,
            self._count.one(organization_id=organization_id, from_fork=int(from_fork)) or 0,
            self._source_bytes(organization_id, from_fork=from_fork),
        )

    def has_source_room(self, organization_id: int) -> bool:
        """Tell whether a source may be downloaded for a build that an organization has already."""
        return self._source_bytes(organization_id, from_fork=False) < self.settings.max_source_gb * _GB

    def _source_bytes(self, organization_id: int, *, from_fork: bool) -> int:
        uuids = self._with_source.all(organization_id=organization_id, from_fork=int(from_fork))
        return self._sources.bytes_of_all(uuids)
