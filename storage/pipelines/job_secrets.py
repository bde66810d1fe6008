"""Secrets of jobs: found for a job, kept sealed while it runs (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Columns, Query, Slots, Write, first, slot
from storage.errors import SecretNotAllowed, SecretNotFound
from storage.models.builds import AttemptRow, JobRow
from storage.models.pipelines import SecretRow
from storage.pipelines.secret_limits import is_limited, limits_of, refusal, refusal_of_build
from storage.pipelines.secrets import seal_context
from storage.records.pipelines import Secret, SecretLimits, SecretScope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from storage.database.connection import Database
    from storage.pipelines.secrets import Secrets
    from storage.records.builds import Build
    from storage.records.jobs import Job
    from storage.vault import Vault

_SECRET = Columns.of(Secret, SecretRow)
_LIMITS: Slots[SecretLimits] = Slots(SecretLimits, SecretRow)
_SCOPE: Slots[SecretScope] = Slots(SecretScope, SecretRow)


class JobSecrets:
    """The secrets that jobs get. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault, secrets: Secrets) -> None:
        self._database = database
        self._vault = vault
        self._secrets = secrets
        of_organization = SecretRow.organization == slot("organization_id")
        coalesce = peewee.fn.COALESCE  # as in the unique index, because SQL nulls are never equal
        of_pipeline = coalesce(SecretRow.pipeline, 0) == coalesce(slot("pipeline_id"), 0)
        this = of_organization & of_pipeline & (SecretRow.name == slot("name"))
        of_job = (AttemptRow.job == slot("job_id")) & (AttemptRow.number == slot("attempt"))
        self._value = Query(
            database, lambda: SecretRow.select(SecretRow.value, SecretRow.source).where(this), lambda row: row
        )
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
        at_hand = SecretRow.pipeline.is_null() | (SecretRow.pipeline == slot("pipeline_id"))
        self._at_hand = Query(
            database, lambda: SecretRow.select(*_SECRET.selected).where(of_organization, at_hand), _SECRET
        )
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
            for each in self._secrets.names(scope)
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
        found = (self._secrets.get(scope, name) for scope in _scopes(build))
        return next((each for each in found if each is not None), None)

    def _sources(self, build: Build, job: Job) -> dict[str, Mapping[str, str]]:
        """Return the sources of those secrets of a job that are fetched from elsewhere, by name."""
        named = {name: self._named(build, name) for name in job.secrets}
        return {
            name: {key: str(value) for key, value in each.source.items()}
            for name, each in named.items()
            if each is not None and each.source is not None
        }

    def names_limited(self, build: Build, named: Collection[str]) -> bool:
        """Tell whether one of the names that jobs of a build have for secrets is of one not for all jobs."""
        known = (each for scope in _scopes(build) for each in self._secrets.names(scope) if each.name in named)
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
                        found[name] = self._vault.open(bytes(sealed), seal_context(scope, name)).decode()
                    break
        return found


def _has_any(job: Job) -> bool:
    return bool(job.secrets or job.registries) or job.identity_audience is not None


def _scopes(build: Build) -> tuple[SecretScope, SecretScope]:
    """Return where the secrets of a build are looked up: its pipeline's are first."""
    return SecretScope(build.organization_id, build.pipeline_id), SecretScope(build.organization_id)


def _seal_context_of_attempt(job: Job) -> bytes:
    """Return the seal context of an attempt's secrets; it is part of the stored format and never changes."""
    return f"lent {job.uuid} {job.attempt}".encode()


def _sealed(row: Sequence[bytes]) -> bytes:
    return row[0]
