"""Runner tokens, with which a VM fetches the source of one build.

See wire-decisions.md, "The source for a VM".
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from storage.accounts.tokens import hashed
from storage.database.statements import Query, Write, insert_into, slot
from storage.models import BuildRow, RunnerTokenRow

if TYPE_CHECKING:
    from storage.database.connection import Database

_BYTES = 32


class RunnerTokens:
    """At most one token per build, of which only the SHA-256 is stored. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._build = Query(
            database,
            RunnerTokenRow.select(BuildRow.uuid)
            .join(BuildRow)
            .where(RunnerTokenRow.hash == slot("hash"), BuildRow.finished_at.is_null()),
            lambda row: str(row[0]),
        )
        self._replace = Write(database, insert_into(RunnerTokenRow).on_conflict("REPLACE"))
        self._delete = Write(database, RunnerTokenRow.delete().where(RunnerTokenRow.build == slot("build_id")))

    def mint(self, build_id: int) -> str:
        """Return a new token of a build, which replaces an earlier one."""
        token = secrets.token_urlsafe(_BYTES)
        with self._database.write():
            self._replace.run(build_id=build_id, hash=hashed(token))
        return token

    def build(self, token: str) -> str | None:
        """Return the UUID of a token's build; None if the token is invalid or the build finished."""
        return self._build.one(hash=hashed(token))

    def revoke(self, build_id: int) -> None:
        """Revoke a build's token, if it has one."""
        with self._database.write():
            self._delete.run(build_id=build_id)
