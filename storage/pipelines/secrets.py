"""Secrets: set by people, stored sealed, and given only to jobs (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.errors import PipelineGone, SealBroken, SecretInvalid, SecretNotAllowed, SecretNotFound
from storage.models.builds import AttemptRow, JobRow
from storage.models.pipelines import PipelineRow, SecretRow
from storage.pipelines.secret_limits import changed_limits, is_limited, limits_of, refusal, refusal_of_build
from storage.records.pipelines import MAX_SECRET_BYTES, Secret, SecretLimitChanges, SecretLimits, SecretScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.jobs import Job
    from storage.vault import Vault

_SECRET = Columns.of(Secret, SecretRow)
_LIMITS: Slots[SecretLimits] = Slots(SecretLimits, SecretRow)
_SCOPE: Slots[SecretScope] = Slots(SecretScope, SecretRow)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
_RESERVED = re.compile(r"CI|CI_.*|HOME|PATH", re.ASCII)
_NO_CHANGES: SecretLimitChanges = {}


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
        self._list = Query(database, lambda: secrets.where(scope).order_by(SecretRow.name), _SECRET)
        self._get = Query(database, lambda: secrets.where(this), _SECRET)
        self._value = Query(
            database, lambda: SecretRow.select(SecretRow.value, SecretRow.source).where(this), lambda row: row
        )
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
        asks = JobRow.identity_audience.is_null(is_null=False)  # or so may jobs that are generated
        self._identified = Query(
            database,
            lambda: (
                JobRow.select(JobRow.id)
                .where(JobRow.build == slot("build_id"), asks | JobRow.generates.is_null(is_null=False))
                .limit(1)
            ),
            first,
        )
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
        at_hand = SecretRow.pipeline.is_null() | (SecretRow.pipeline == slot("pipeline_id"))
        self._at_hand = Query(database, lambda: secrets.where(of_organization, at_hand), _SECRET)
        self._delete = Write(database, lambda: SecretRow.delete().where(this))
        self._of_attempt = Query(
            database,
            lambda: AttemptRow.select(AttemptRow.secrets).where(of_job, AttemptRow.secrets.is_null(is_null=False)),
            _sealed,
        )
        self._keep = Write(
            database,
            lambda: AttemptRow.update({AttemptRow.secrets: slot("secrets")}).where(
                of_job, AttemptRow.finished_at.is_null()
            ),
        )

    def names(self, scope: SecretScope) -> list[Secret]:
        """Return a scope's secrets without values, sorted by name."""
        return self._list.all(organization_id=scope.organization_id, pipeline_id=scope.pipeline_id)

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
        sealed = self._vault.seal(value.encode(), _seal_context(scope, name))
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

    def resolve(
        self,
        build: Build,
        job: Job,
        made: Callable[[Mapping[str, Mapping[str, str]]], Mapping[str, str]] = lambda _sources: {},
    ) -> dict[str, str]:
        """Return the secrets that a job names, by name; a pipeline's secret overrides its organization's.

        ``made`` makes those of the attempt alone, and fetches those of the sources that it is given by name, once it is
        known that the job may have them. A job of an untrusted build gets none.

        The values of an attempt are stored, sealed, at its first call. Later calls return the same ones, so that its
        log is masked by the values that it has. Raises SecretNotFound, SecretNotAllowed and SealBroken.
        """
        if build.untrusted or not _has_any(job):
            return {}
        if known := self.of_attempt(job):
            return known
        self._check_limits(build, job)
        own = made(self._sources(build, job))  # takes long, so nothing waits for it
        with self._database.write():
            resolved = self.of_attempt(job)
            if not resolved:
                self._check_limits(build, job)
                resolved = {**self._find(build, [each for each in job.secrets if each not in own]), **own}
                sealed = self._vault.seal(json.dumps(resolved).encode(), _seal_context_of_attempt(job))
                self._keep.run(job_id=job.id, attempt=job.attempt, secrets=sealed)
        return resolved

    def of_attempt(self, job: Job) -> dict[str, str]:
        """Return the secrets that a job's attempt has; empty if it has none or is finished. Raises SealBroken."""
        sealed = self._of_attempt.one(job_id=job.id, attempt=job.attempt) if _has_any(job) else None
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
        changed = {
            each.name
            for scope in _scopes(build)
            for each in self.names(scope)
            if job.scheduled_at is None or each.updated_at >= job.scheduled_at
        }
        try:
            return None if changed & set(job.secrets) else self._find(build, job.secrets)
        except SecretNotFound:
            return None

    def shared_with(self, build: Build) -> str:
        """Return the name of the builds that may have the same limited secrets as this one; empty without any.

        If its jobs get identity tokens, or may have a secret that is given for one, these builds are of the same ref.

        A build shares disks and kept folders only with these: others would find in them what its jobs have left of
        their secrets, or leave there what these run.
        """
        at_hand = self._at_hand.all(organization_id=build.organization_id, pipeline_id=build.pipeline_id)
        elsewhere = any(each.source is not None for each in at_hand)
        ref = self._identified_ref(build, elsewhere=elsewhere)
        had = sorted(
            (each.name, *_LIMITS(limits).items())
            for each in at_hand
            if is_limited(limits := limits_of(each)) and not build.untrusted and not refusal_of_build(limits, build)
        )
        return hashlib.sha256(repr((had, ref) if ref else had).encode()).hexdigest()[:32] if had or ref else ""

    def _identified_ref(self, build: Build, *, elsewhere: bool) -> str | None:
        """Return the ref that the identity tokens of a build say; None if there are none.

        With ``elsewhere`` any job of it may have a secret that is given for a token.
        """
        if build.untrusted or not (elsewhere or self._identified.one(build_id=build.id) is not None):
            return None
        return build.verified_ref or "unverified"

    def _check_limits(self, build: Build, job: Job) -> None:
        """Raise SecretNotAllowed if a secret that a job names is not for it."""
        for name in job.secrets:
            why = refusal(limits_of(self._named(build, name)), build, job.environment)
            if why is not None:
                raise SecretNotAllowed(name, why)

    def _named(self, build: Build, name: str) -> Secret | None:
        found = (self._get.one(**_SCOPE(scope), name=name) for scope in _scopes(build))
        return next((each for each in found if each is not None), None)

    def _sources(self, build: Build, job: Job) -> dict[str, Mapping[str, str]]:
        """Return the sources of those secrets of a job that are fetched from elsewhere, by name."""
        named = {name: self._named(build, name) for name in job.secrets}
        return {
            name: {key: str(value) for key, value in each.source.items()}
            for name, each in named.items()
            if each is not None and each.source is not None
        }

    def names_limited(self, build: Build, jobs: Sequence[Job]) -> bool:
        """Tell whether one of some jobs of a build names a secret that is not for every job."""
        named = {name for job in jobs for name in job.secrets}
        known = (each for scope in _scopes(build) for each in self.names(scope) if each.name in named)
        return any(is_limited(limits_of(each)) for each in known)

    def current(self, build: Build, job: Job) -> dict[str, str]:
        """Return the present values of the secrets that a job names, less those removed or from elsewhere.

        A job of an untrusted build has none. Raises SealBroken.
        """
        return {} if build.untrusted else self._existing(build, job.secrets)

    def _find(self, build: Build, names: Sequence[str]) -> dict[str, str]:
        found = self._existing(build, names)
        missing = [name for name in names if name not in found]
        if missing:
            raise SecretNotFound(missing, build.organization_slug, build.pipeline_slug)
        return found

    def _existing(self, build: Build, names: Sequence[str]) -> dict[str, str]:
        scopes = _scopes(build)
        found: dict[str, str] = {}
        for name in names:
            for scope in scopes:
                row = self._value.one(**_SCOPE(scope), name=name)
                if row is not None:
                    sealed, source = row
                    if source is None:
                        found[name] = self._vault.open(bytes(sealed), _seal_context(scope, name)).decode()
                    break
        return found


def _has_any(job: Job) -> bool:
    return bool(job.secrets) or job.identity_audience is not None


def _scopes(build: Build) -> tuple[SecretScope, SecretScope]:
    """Return where the secrets of a build are looked up: its pipeline's are first."""
    return SecretScope(build.organization_id, build.pipeline_id), SecretScope(build.organization_id)


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


def _seal_context(scope: SecretScope, name: str) -> bytes:
    """Return the only context in which a sealed value opens, for `Vault.seal` and `Vault.open`."""
    return f"secret {scope.organization_id} {scope.pipeline_id or '-'} {name}".encode()


def _seal_context_of_attempt(job: Job) -> bytes:
    """Return the seal context of an attempt's secrets; it is part of the stored format and never changes."""
    return f"lent {job.uuid} {job.attempt}".encode()


def _sealed(row: Sequence[bytes]) -> bytes:
    return row[0]
