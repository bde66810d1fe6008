"""Secrets: set by people, stored sealed, and given only to jobs (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.errors import PipelineGone, SealBroken, SecretInvalid, SecretNotFound
from storage.models.builds import AttemptRow
from storage.models.pipelines import PipelineRow, SecretRow
from storage.records.pipelines import Secret, SecretScope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.jobs import Job
    from storage.vault import Vault

_SECRET = Columns.of(Secret, SecretRow)
_SCOPE: Slots[SecretScope] = Slots(SecretScope, SecretRow)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_RESERVED = re.compile(r"CI|CI_.*|HOME|PATH", re.ASCII)
_MAX_BYTES = 64 * 1024


class Secrets:
    """The secrets of organizations and pipelines. Only jobs get their values. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        of_organization = SecretRow.organization == slot("organization_id")
        coalesce = peewee.fn.COALESCE  # as in the unique index, because SQL nulls are never equal
        of_pipeline = coalesce(SecretRow.pipeline, 0) == coalesce(slot("pipeline_id"), 0)
        scope = of_organization & of_pipeline
        this = scope & (SecretRow.name == slot("name"))
        of_job = (AttemptRow.job == slot("job_id")) & (AttemptRow.number == slot("attempt"))
        secrets = SecretRow.select(*_SECRET.selected)
        self._list = Query(database, secrets.where(scope).order_by(SecretRow.name), _SECRET)
        self._get = Query(database, secrets.where(this), _SECRET)
        self._value = Query(database, SecretRow.select(SecretRow.value).where(this), _sealed)
        self._all = Query(
            database,
            SecretRow.select(SecretRow.organization, SecretRow.pipeline, SecretRow.name, SecretRow.value),
            lambda row: (SecretScope(row[0], row[1]), str(row[2]), bytes(row[3])),
        )
        self._insert = Write(database, insert_into(SecretRow))
        self._pipeline = Query(
            database,
            PipelineRow.select(PipelineRow.id).where(
                PipelineRow.id == slot("pipeline_id"), PipelineRow.deleted_at.is_null()
            ),
            first,
        )
        self._update = Write(
            database,
            SecretRow.update({SecretRow.value: slot("value"), SecretRow.updated_at: slot("updated_at")}).where(this),
        )
        self._delete = Write(database, SecretRow.delete().where(this))
        self._of_attempt = Query(
            database,
            AttemptRow.select(AttemptRow.secrets).where(of_job, AttemptRow.secrets.is_null(is_null=False)),
            _sealed,
        )
        self._keep = Write(
            database,
            AttemptRow.update({AttemptRow.secrets: slot("secrets")}).where(of_job, AttemptRow.finished_at.is_null()),
        )

    def names(self, scope: SecretScope) -> list[Secret]:
        """Return a scope's secrets without values, sorted by name."""
        return self._list.all(organization_id=scope.organization_id, pipeline_id=scope.pipeline_id)

    def put(self, scope: SecretScope, name: str, value: str) -> Secret:
        """Create or replace a secret. Raises SecretInvalid, PipelineGone."""
        _check(name, value)
        this: dict[str, SqlValue] = {**_SCOPE(scope), "name": name}
        sealed = self._vault.seal(value.encode(), _seal_context(scope, name))
        with self._database.write():
            if scope.pipeline_id is not None and self._pipeline.one(pipeline_id=scope.pipeline_id) is None:
                raise PipelineGone("the pipeline was deleted: it has no secrets")
            now = self._database.now()
            if not self._update.run(**this, value=sealed, updated_at=now):
                self._insert.run(**this, value=sealed, created_at=now, updated_at=now)
            return written(self._get.one(**this))

    def open_all(self) -> int:
        """Decrypt every secret, to check the key; return their number.

        Raises SealBroken with the name of the first that does not open.
        """
        found = self._all.all()
        for scope, name, sealed in found:
            try:
                self._vault.open(sealed, _seal_context(scope, name))
            except SealBroken as error:
                raise SealBroken(
                    f"the secret {name} cannot be decrypted with secret.key: it was sealed with another key"
                ) from error
        return len(found)

    def remove(self, scope: SecretScope, name: str) -> bool:
        """Delete a secret; False if there is none. Jobs that already have it keep it."""
        with self._database.write():
            return self._delete.run(**_SCOPE(scope), name=name) == 1

    def resolve(self, build: Build, job: Job) -> dict[str, str]:
        """Return the secrets that a job names, by name; a pipeline's secret overrides its organization's.

        A job of an untrusted build gets none.

        The values of an attempt are stored, sealed, at its first call. Later calls return the same ones, so that its
        log is masked by the values that it has. Raises SecretNotFound and SealBroken.
        """
        if not job.secrets or build.untrusted:
            return {}
        with self._database.write():
            resolved = self.of_attempt(job)
            if not resolved:
                resolved = self._find(build, job.secrets)
                sealed = self._vault.seal(json.dumps(resolved).encode(), _seal_context_of_attempt(job))
                self._keep.run(job_id=job.id, attempt=job.attempt, secrets=sealed)
        return resolved

    def of_attempt(self, job: Job) -> dict[str, str]:
        """Return the secrets that a job's attempt has; empty if it has none or is finished. Raises SealBroken."""
        sealed = self._of_attempt.one(job_id=job.id, attempt=job.attempt) if job.secrets else None
        if sealed is None:
            return {}
        resolved: dict[str, str] = json.loads(self._vault.open(sealed, _seal_context_of_attempt(job)))
        return resolved

    def unchanged(self, build: Build, job: Job) -> dict[str, str] | None:
        """Return the secrets that a job has or had; None if one was set anew or removed since.

        Raises SealBroken.
        """
        if not job.secrets or build.untrusted:
            return {}
        scopes = (SecretScope(build.organization_id, build.pipeline_id), SecretScope(build.organization_id))
        changed = {
            each.name
            for scope in scopes
            for each in self.names(scope)
            if job.scheduled_at is None or each.updated_at >= job.scheduled_at
        }
        try:
            return None if changed & set(job.secrets) else self._find(build, job.secrets)
        except SecretNotFound:
            return None

    def _find(self, build: Build, names: Sequence[str]) -> dict[str, str]:
        scopes = (SecretScope(build.organization_id, build.pipeline_id), SecretScope(build.organization_id))
        found: dict[str, str] = {}
        for name in names:
            for scope in scopes:
                sealed = self._value.one(**_SCOPE(scope), name=name)
                if sealed is not None:
                    found[name] = self._vault.open(sealed, _seal_context(scope, name)).decode()
                    break
        missing = [name for name in names if name not in found]
        if missing:
            raise SecretNotFound(missing, build.organization_slug, build.pipeline_slug)
        return found


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
    if not 1 <= size <= _MAX_BYTES:
        raise SecretInvalid(f"value: expected 1 to {_MAX_BYTES} bytes of UTF-8, not {size}")


def _seal_context(scope: SecretScope, name: str) -> bytes:
    """Return the only context in which a sealed value opens, for `Vault.seal` and `Vault.open`."""
    return f"secret {scope.organization_id} {scope.pipeline_id or '-'} {name}".encode()


def _seal_context_of_attempt(job: Job) -> bytes:
    """Return the seal context of an attempt's secrets; it is part of the stored format and never changes."""
    return f"lent {job.uuid} {job.attempt}".encode()


def _sealed(row: Sequence[bytes]) -> bytes:
    return row[0]
