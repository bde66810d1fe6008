"""Idempotency keys of requests (wire-decisions.md, "Idempotency")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.instants import DAY
from storage.database.statements import Columns, Query, Slots, Write, insert_into, slot
from storage.errors import KeyUsed
from storage.models import BuildRow, KeyRow, PipelineRow
from storage.records import KeyUse, RequestKey

if TYPE_CHECKING:
    from storage.database.connection import Database

_USE = Columns(KeyUse, KeyRow.build, KeyRow.rejected, (KeyRow.request_hash == slot("request_hash"), bool))
_KEY: Slots[RequestKey] = Slots(RequestKey, KeyRow)


class IdempotencyKeys:
    """The keys of the requests that created builds in the last 24 h, per user and organization.

    A key whose pipeline was deleted counts as unused. Safe in any thread.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = (KeyRow.user == slot("user_id")) & (KeyRow.organization == slot("organization_id"))
        self._find = Query(
            database,
            KeyRow.select(*_USE.selected)
            .join(BuildRow)
            .join(PipelineRow)
            .where(
                this, KeyRow.key == slot("key"), KeyRow.created_at > slot("after"), PipelineRow.deleted_at.is_null()
            ),
            _USE,
        )
        self._forget = Write(database, KeyRow.delete().where(KeyRow.created_at <= slot("before")))
        self._replace = Write(database, insert_into(KeyRow).on_conflict("REPLACE"))

    def find(self, key: RequestKey) -> KeyUse | None:
        """Return the earlier use of a key, by the same request or another one."""
        return self._find.one(
            **_KEY(key),
            after=self._database.ago(DAY),
        )

    def claim(self, key: RequestKey, build_id: int, *, rejected: bool) -> None:
        """Store a key with the build that its request created, in the build's transaction. Raises KeyUsed."""
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=self._database.ago(DAY))
            use = self.find(key)
            if use is not None:
                raise KeyUsed(use)
            self._replace.run(**_KEY(key), build_id=build_id, rejected=rejected, created_at=now)
