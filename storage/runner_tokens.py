"""Runner tokens: what a VM may fetch the source of one build with (wire-decisions.md, "Pipelines, builds, jobs")."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from storage.models import BuildRow, RunnerTokenRow
from storage.statements import Command, Query, insert_into, slot
from storage.tokens import hashed

if TYPE_CHECKING:
    from storage.database import Database

__all__ = ["RunnerTokens"]

_BYTES = 32


class RunnerTokens:
    """One token a build at most, of which only the SHA-256 is stored. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._build = Query(
            database,
            RunnerTokenRow.select(BuildRow.uuid)
            .join(BuildRow)
            .where(RunnerTokenRow.hash == slot("hash"), BuildRow.finished_at.is_null()),
            lambda row: str(row[0]),
        )
        self._replace = Command(database, insert_into(RunnerTokenRow).on_conflict("REPLACE"))
        self._delete = Command(database, RunnerTokenRow.delete().where(RunnerTokenRow.build == slot("build_id")))

    def mint(self, build_id: int) -> str:
        """Return a new token of a build, in the place of one before it."""
        token = secrets.token_urlsafe(_BYTES)
        with self._database.write():
            self._replace.run(build_id=build_id, hash=hashed(token))
        return token

    def build(self, token: str) -> str | None:
        """Return the UUID of the build whose source the token opens; None where the token, or the build, is over."""
        return self._build.one(hash=hashed(token))

    def revoke(self, build_id: int) -> None:
        """End a build's token, where there is one."""
        with self._database.write():
            self._delete.run(build_id=build_id)
