"""Retention of the logs of finished builds (engine.md, "Logs")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, first, slot
from storage.files.retention import BATCH, Retention
from storage.models import BuildRow

if TYPE_CHECKING:
    from storage.database.connection import Database
    from storage.files.logs import LogFiles
    from storage.files.retention import KeptFiles

__all__ = ["LogRetention"]


class LogRetention(Retention):
    """Retention of logs. Never touches an unfinished build's. Safe in any thread.

    A build's logs are measured on disk once, after its end.
    """

    def __init__(self, database: Database, logs: LogFiles) -> None:
        super().__init__(database, BuildRow.log_bytes, BuildRow.logs_expired_at)
        self._logs = logs
        this = BuildRow.uuid == slot("uuid")
        self._to_measure = Query(
            database,
            BuildRow.select(BuildRow.uuid)
            .where(
                BuildRow.finished_at.is_null(is_null=False),
                BuildRow.log_bytes.is_null(),
                BuildRow.logs_expired_at.is_null(),
            )
            .order_by(BuildRow.id)
            .limit(BATCH),
            lambda row: str(row[0]),
        )
        self._note = Write(database, BuildRow.update({BuildRow.log_bytes: slot("bytes")}).where(this))
        self._known = Query(database, BuildRow.select(BuildRow.id).where(this), first)

    def measure(self) -> None:
        """Note the size of the logs of every build that finished since the last call."""
        while batch := self._to_measure.all():
            taken = {uuid: self._logs.bytes_of(uuid) for uuid in batch}
            with self._database.write():
                for uuid, size in taken.items():
                    self._note.run(uuid=uuid, bytes=size)

    def remove_orphans(self) -> list[str]:
        """Remove the logs of builds without a row; return the names of their folders."""
        orphans = [name for name in self._logs.builds() if self._known.one(uuid=name) is None]
        for name in orphans:
            self._logs.remove(name)
        return orphans

    def _remove(self, kept: KeptFiles) -> None:
        self._logs.remove(kept.build_uuid)
