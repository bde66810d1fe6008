"""Insertion of a new build: source archive, number, row, jobs and idempotency key.

See wire-decisions.md, "Idempotency".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.builds.build_rows import BUILD, existing_builds
from storage.builds.concurrency import group_of, shared_name
from storage.builds.search import index_words
from storage.database.clock import DAY
from storage.database.statements import Columns, Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.errors import DatabaseNotSynced, JobsJoined, KeyUsed, PipelineGone, SourceGone
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, BuildUpstreamRow, EdgeRow, JobRow, KeyRow
from storage.models.pipelines import PipelineRow
from storage.records.builds import KeyUse, NewBuild, RequestKey
from storage.records.jobs import JobErrorCode, JobState, NewJob, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.audit import Audit
    from storage.builds.concurrency import ConcurrencyGroups
    from storage.database.connection import Database
    from storage.files.sources import Sources
    from storage.records.builds import Build, BuildState
    from storage.records.pipelines import Pipeline
    from storage.settings import BuildSettings
    from storage.vault import Vault


_NEW_BUILD: Slots[NewBuild] = Slots(NewBuild, BuildRow)
_ORGANIZATIONS_CHOICE = OrganizationRow.select(OrganizationRow.strict_shell).where(
    OrganizationRow.id == PipelineRow.organization
)


class BuildInserter:
    """Inserts builds, each with its jobs and edges in one transaction, after its source archive."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        sources: Sources,
        keys: IdempotencyKeys,
        groups: ConcurrencyGroups,
        jobs: JobInserter,
        audit: Callable[[], Audit],
        *,
        strict_shell: bool,
    ) -> None:
        """``strict_shell`` is for builds of pipelines without a choice of their own or their organization's."""
        self._database = database
        self._vault = vault
        self._sources = sources
        self._keys = keys
        self._groups = groups
        self._host_strict_shell = strict_shell
        self._jobs = jobs
        self._audit = audit
        self._next_number = Query(
            database,
            lambda: (
                PipelineRow.update({PipelineRow.build_count: PipelineRow.build_count + 1})
                .where(PipelineRow.id == slot("id"), PipelineRow.deleted_at.is_null())
                .returning(PipelineRow.build_count, peewee.fn.COALESCE(PipelineRow.strict_shell, _ORGANIZATIONS_CHOICE))
            ),
            lambda row: (int(row[0]), row[1]),
        )
        self._insert = Write(
            database,
            lambda: insert_into(
                BuildRow,
                "started_at",
                "log_bytes",
                "logs_expired_at",
                "artifact_bytes",
                "artifacts_expired_at",
                "source_bytes",
                "source_expired_at",
                "approved_by",
                "approved_at",
                "told_at",
                "told_state",
            ),
        )
        self._follow = Write(database, lambda: insert_into(BuildUpstreamRow))
        self._inserted = Query(database, lambda: existing_builds().where(BuildRow.id == slot("id")), BUILD)

    def insert(
        self,
        pipeline: Pipeline,
        new: NewBuild,
        jobs: Sequence[NewJob],
        state: BuildState,
        error_code: str | None = None,
        error_message: str | None = None,
        *,
        refused: bool = False,
    ) -> Build:
        """Insert a build in a state, with the reason if that is ``failed``, and whether a request was refused.

        Raises KeyUsed, PipelineGone or SourceGone.
        """
        uuid = str(uuid4())
        self._keep_source(uuid, new)
        try:
            with self._database.write():
                now = self._database.now()
                counted = self._next_number.one(id=pipeline.id)
                if counted is None:
                    raise PipelineGone(f'the pipeline "{pipeline.slug}" was deleted: no build is created')
                number, set_shell = counted
                strict_shell = self._host_strict_shell if set_shell is None else bool(set_shell)
                fields: dict[str, SqlValue] = {
                    "uuid": uuid,
                    "external_id": str(uuid4()),
                    "pipeline_id": pipeline.id,
                    "number": number,
                    "state": state,
                    "cancel_requested": False,
                    "has_source": new.has_source,
                    "created_at": now,
                    "scheduled_at": now,
                    "finished_at": now if state.terminal else None,
                    "recorded_at": now if state.terminal else None,
                    "error_code": error_code,
                    "error_message": error_message,
                    "refused": refused,
                    "waits_for": None if state.terminal else self._groups.wait_of_new(pipeline, new),
                    "concurrency_group": group_of(pipeline, new),
                    "concurrency_limit": None if new.concurrency is None else new.concurrency.limit,
                    "strict_shell": new.strict_shell or strict_shell,
                    "env": self._vault.seal(json.dumps(dict(new.env)).encode()) if new.env else None,
                }
                build_id = self._insert.insert(**_NEW_BUILD(new) | fields)
                index_words(self._database, build_id)
                build = written(self._inserted.one(id=build_id))
                if new.concurrency is not None and new.concurrency.cancels and not state.terminal:
                    group = written(build.concurrency_group)
                    self._groups.cancel_older(build.id, build.number, build.organization_id, group)
                if new.upstream_id is not None:
                    self._follow.insert(build_id=build_id, upstream_id=new.upstream_id)
                self._jobs.insert(build, jobs, now)
                if new.key is not None:
                    self._keys.claim(new.key, build_id, rejected=state.terminal)
                if new.entry is not None and not state.terminal:
                    self._audit().add(new.entry, number)
                return build
        except DatabaseNotSynced:
            raise  # the build may be stored; if it is not, its archive is removed as an orphan
        except BaseException:
            self._sources.remove(uuid)
            raise

    def _keep_source(self, uuid: str, new: NewBuild) -> None:
        """Store the source archive that a build comes with, or link that of the build that it repeats."""
        if new.source_archive is not None:
            self._sources.store(uuid, new.source_archive)
        elif new.source_of is not None:
            try:
                self._sources.link(new.source_of, uuid)
            except FileNotFoundError:
                raise SourceGone("the source archive of this build is no longer kept") from None


_NEW_JOB: Slots[NewJob] = Slots(NewJob, JobRow, shape=Slots(Shape, JobRow))


class JobInserter:
    """Inserts jobs of a build, inside the caller's transaction."""

    def __init__(self, database: Database, settings: BuildSettings) -> None:
        self._settings = settings
        self._insert_job = Write(
            database,
            lambda: insert_into(
                JobRow,
                "disk",
                "exit_code",
                "attempts_before",
                "not_before",
                "awaited_image",
                "image_digest",
                "service_image_digests",
                "started_at",
            ),
        )
        self._insert_edge = Write(database, lambda: insert_into(EdgeRow))
        self._ids = Query(
            database,
            lambda: JobRow.select(JobRow.id).where(JobRow.build == slot("build_id")).order_by(JobRow.position),
            first,
        )

    def insert(self, build: Build, jobs: Sequence[NewJob], now: int) -> None:
        """Insert the jobs of a new build, with their index in the list as position.

        The cached disks of an untrusted build have keys that only its pull request's builds have.
        """

        def ready(job: NewJob) -> bool:
            return build.waits_for is None and all(jobs[each.position].skipped is not None for each in job.depends_on)

        self._insert_job.run_many(
            self._slots(job, place, build, now, ready=ready(job)) for place, job in enumerate(jobs)
        )
        if any(job.depends_on for job in jobs):
            self._insert_edges(self._ids.all(build_id=build.id), jobs)

    def append(self, build: Build, before: int, jobs: Sequence[NewJob], now: int, *, generated_by: str) -> None:
        """Insert jobs after those that a build has, for a job with this UUID.

        They are pending: its supervisor schedules them. Raises JobsJoined if it has not so many jobs ``before`` them.
        """
        if len(self._ids.all(build_id=build.id)) != before:
            raise JobsJoined(f"the build has not {before} jobs any more")
        self._insert_job.run_many(
            self._slots(job, place, build, now, ready=False, generated_by=generated_by)
            for place, job in enumerate(jobs, start=before)
        )
        self._insert_edges(self._ids.all(build_id=build.id), jobs)

    def _slots(
        self, job: NewJob, position: int, build: Build, now: int, *, ready: bool, generated_by: str | None = None
    ) -> Mapping[str, SqlValue]:
        values, taken = _NEW_JOB(job), job.taken
        ended = JobState.SKIPPED if job.skipped else None if taken is None else taken.state
        ready = ready and ended is None and job.environment is None
        if job.cache_key is not None and build.untrusted_origin is not None:
            values["cache_key"] = f"{build.untrusted_origin}:{job.cache_key}"
        yields = self._settings.yields(build.priority)
        values |= {
            "uuid": str(uuid4()),
            "build_id": build.id,
            "organization_id": build.organization_id,
            "position": position,
            "state": ended or (JobState.SCHEDULED if ready else JobState.PENDING),
            "error_code": JobErrorCode.CONDITION_NOT_MET if job.skipped else None,
            "error_message": job.skipped,
            "finished_at": now if ended else None,
            "attempt": 0,
            "soft_failed": False,
            "cache_hit": False,
            "created_at": now,
            "scheduled_at": now if ready else None,
            "queued_at": now if ready else None,
            "lock": _lock(job, build),
            "awaits_lock": job.lock is not None or job.environment is not None,
            "generated_by": generated_by,
            "yields": yields,
            "turn_at": now + yields if ready else None,
        }
        if taken is not None:
            values |= {name: getattr(taken, name) for name in ("soft_failed", "error_code", "error_message")}
        return values

    def _insert_edges(self, ids: Sequence[int], jobs: Sequence[NewJob]) -> None:
        """Insert the edges of the last jobs of a build; ``ids`` are those of all its jobs."""
        self._insert_edge.run_many(
            {
                "from_id": ids[each.position],
                "to_id": job_id,
                "kind": each.kind,
                "continue_on_failure": each.continue_on_failure,
                "workspace": each.workspace,
            }
            for job_id, job in zip(ids[len(ids) - len(jobs) :], jobs, strict=True)
            for each in job.depends_on
        )


def _lock(job: NewJob, build: Build) -> str | None:
    """Return the lock of a job: its own, or that of its environment, which builds of forks share."""
    if job.environment is not None:
        return f"environment {job.environment}"
    return None if job.lock is None else shared_name(job.lock, build.branch, build.untrusted_origin)


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
            lambda: (
                KeyRow.select(*_USE.selected)
                .join(BuildRow)
                .join(PipelineRow)
                .where(
                    this, KeyRow.key == slot("key"), KeyRow.created_at > slot("after"), PipelineRow.deleted_at.is_null()
                )
            ),
            _USE,
        )
        self._forget = Write(database, lambda: KeyRow.delete().where(KeyRow.created_at <= slot("before")))
        self._replace = Write(database, lambda: insert_into(KeyRow).on_conflict("REPLACE"))

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
