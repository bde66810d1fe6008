"""Retention of the logs of finished builds (engine.md, "Logs")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, first, slot
from storage.files.retention import MeasuredRetention
from storage.models import BuildRow

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.files.logs import LogFiles
    from storage.files.retention import KeptFiles


class LogRetention(MeasuredRetention):
    """Retention of logs. Never touches an unfinished build's. Safe in any thread."""

    def __init__(self, database: Database, logs: LogFiles) -> None:
        super().__init__(database, BuildRow.log_bytes, BuildRow.logs_expired_at)
        self._logs = logs
        self._known = Query(database, BuildRow.select(BuildRow.id).where(BuildRow.uuid == slot("uuid")), first)

    def remove_orphans(self) -> list[str]:
        """Remove the logs of builds without a row; return the names of their folders."""
        orphans = [name for name in self._logs.builds() if self._known.one(uuid=name) is None]
        for name in orphans:
            self._logs.remove(name)
        return orphans

    def _remove(self, kept: KeptFiles) -> None:
        self._logs.remove(kept.build_uuid)

    def _bytes_of(self, build_uuid: str) -> int:
        return self._logs.bytes_of(build_uuid)
