"""Secrets: set by people and stored sealed. Jobs get them (`storage.pipelines.job_secrets`)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.errors import PipelineGone, SealBroken, SecretInvalid
from storage.models.pipelines import PipelineRow, SecretRow
from storage.pipelines.secret_limits import changed_limits, limits_of
from storage.records.pipelines import MAX_SECRET_BYTES, Secret, SecretLimitChanges, SecretLimits, SecretScope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.database.connection import Database
    from storage.vault import Vault

_SECRET = Columns.of(Secret, SecretRow)
_LIMITS: Slots[SecretLimits] = Slots(SecretLimits, SecretRow)
_SCOPE: Slots[SecretScope] = Slots(SecretScope, SecretRow)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_RESERVED = re.compile(r"CI|CI_.*|HOME|PATH", re.ASCII)
_NO_CHANGES: SecretLimitChanges = {}


class Secrets:
    """The secrets of organizations and pipelines; nobody gets their values here. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        of_organization = SecretRow.organization == slot("organization_id")
        coalesce = peewee.fn.COALESCE  # as in the unique index, because SQL nulls are never equal
        of_pipeline = coalesce(SecretRow.pipeline, 0) == coalesce(slot("pipeline_id"), 0)
        scope = of_organization & of_pipeline
        this = scope & (SecretRow.name == slot("name"))
        secrets = SecretRow.select(*_SECRET.selected)
        self._list = Query(database, lambda: secrets.where(scope).order_by(SecretRow.name), _SECRET)
        self._get = Query(database, lambda: secrets.where(this), _SECRET)
        self._all = Query(
            database,
            lambda: SecretRow.select(SecretRow.organization, SecretRow.pipeline, SecretRow.name, SecretRow.value),
            lambda row: (SecretScope(row[0], row[1]), str(row[2]), bytes(row[3])),
        )
        self._insert = Write(database, lambda: insert_into(SecretRow))
        self._pipeline = Query(
            database,
            lambda: PipelineRow.select(PipelineRow.id).where(
                PipelineRow.id == slot("pipeline_id"), PipelineRow.deleted_at.is_null()
            ),
            first,
        )
        limits = {getattr(SecretRow, each): slot(each) for each in _LIMITS.columns}
        self._update = Write(
            database,
            lambda: SecretRow.update(
                {
                    SecretRow.value: slot("value"),
                    SecretRow.source: slot("source"),
                    SecretRow.updated_at: slot("updated_at"),
                    **limits,
                }
            ).where(this),
        )
        self._limit = Write(database, lambda: SecretRow.update(limits).where(this))
        self._delete = Write(database, lambda: SecretRow.delete().where(this))

    def names(self, scope: SecretScope) -> list[Secret]:
        """Return a scope's secrets without values, sorted by name."""
        return self._list.all(organization_id=scope.organization_id, pipeline_id=scope.pipeline_id)

    def get(self, scope: SecretScope, name: str) -> Secret | None:
        """Return a secret without its value; None if there is none."""
        return self._get.one(**_SCOPE(scope), name=name)

    def put(self, scope: SecretScope, name: str, value: str, changes: SecretLimitChanges = _NO_CHANGES) -> Secret:
        """Create or replace a secret, with changes of its limits. Raises SecretInvalid, PipelineGone."""
        _check(name, value)
        return self._put(scope, name, value, None, changes)

    def put_source(
        self, scope: SecretScope, name: str, source: Mapping[str, str], changes: SecretLimitChanges = _NO_CHANGES
    ) -> Secret:
        """Create or replace a secret whose value is fetched from elsewhere, as `put` does; raises as it does."""
        from storage.pipelines.secret_sources import checked_source  # noqa: PLC0415 - few set such secrets

        document = json.dumps(checked_source(source), sort_keys=True)
        _check(name, document)
        return self._put(scope, name, document, document, changes)

    def _put(
        self, scope: SecretScope, name: str, value: str, source: str | None, changes: SecretLimitChanges
    ) -> Secret:
        this: dict[str, SqlValue] = {**_SCOPE(scope), "name": name}
        sealed = self._vault.seal(value.encode(), seal_context(scope, name))
        with self._database.write():
            if scope.pipeline_id is not None and self._pipeline.one(pipeline_id=scope.pipeline_id) is None:
                raise PipelineGone("the pipeline was deleted: it has no secrets")
            now, limits = self._database.now(), self._changed(this, changes)
            if not self._update.run(**this, **limits, value=sealed, source=source, updated_at=now):
                self._insert.run(**this, **limits, value=sealed, source=source, created_at=now, updated_at=now)
            return written(self._get.one(**this))

    def limit(self, scope: SecretScope, name: str, changes: SecretLimitChanges) -> Secret | None:
        """Change the limits of a secret; None if there is none. Jobs that already have it keep it.

        Raises SecretInvalid.
        """
        this: dict[str, SqlValue] = {**_SCOPE(scope), "name": name}
        with self._database.write():
            self._limit.run(**this, **self._changed(this, changes))
            return self._get.one(**this)

    def _changed(self, this: Mapping[str, SqlValue], changes: SecretLimitChanges) -> Mapping[str, SqlValue]:
        return _LIMITS(changed_limits(limits_of(self._get.one(**this)), changes))

    def open_all(self) -> int:
        """Decrypt every secret, to check the key; return their number.

        Raises SealBroken with the name of the first that does not open.
        """
        found = self._all.all()
        for scope, name, sealed in found:
            try:
                self._vault.open(sealed, seal_context(scope, name))
            except SealBroken as error:
                raise SealBroken(
                    f"the secret {name} cannot be decrypted with secret.key: it was sealed with another key"
                ) from error
        return len(found)

    def remove(self, scope: SecretScope, name: str) -> bool:
        """Delete a secret; False if there is none. Jobs that already have it keep it."""
        with self._database.write():
            return self._delete.run(**_SCOPE(scope), name=name) == 1


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise SecretInvalid("name: expected 1 to 255 letters, digits and underscores, no digit first")
    if _RESERVED.fullmatch(name):
        raise SecretInvalid(f"name: expected another name than {name}, which the service sets itself")
    if "\0" in value:
        raise SecretInvalid("value: expected no NUL character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise SecretInvalid("value: expected Unicode without lone surrogates") from None
    if not 1 <= size <= MAX_SECRET_BYTES:
        raise SecretInvalid(f"value: expected 1 to {MAX_SECRET_BYTES} bytes of UTF-8, not {size}")


def seal_context(scope: SecretScope, name: str) -> bytes:
    """Return the only context in which a sealed value opens, for `Vault.seal` and `Vault.open`."""
    return f"secret {scope.organization_id} {scope.pipeline_id or '-'} {name}".encode()
