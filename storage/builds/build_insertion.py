"""Insertion of a new build: its source archive, its number, its row, its jobs and its idempotency key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.builds.build_rows import BUILD, existing_builds
from storage.builds.concurrency import group_of
from storage.builds.job_insertion import JobInserter
from storage.database.statements import Query, Slots, SqlValue, Write, first, insert_into, slot, written
from storage.errors import DatabaseNotSynced, PipelineGone, SourceGone
from storage.models import BuildRow, OrganizationRow, PipelineRow
from storage.records import NewBuild

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.builds.concurrency import ConcurrencyGroups
    from storage.database.connection import Database
    from storage.files.sources import Sources
    from storage.idempotency import IdempotencyKeys
    from storage.records import Build, BuildState, NewJob, Pipeline
    from storage.vault import Vault

_NEW: Slots[NewBuild] = Slots(NewBuild, BuildRow)


class BuildInserter:
    """Inserts builds, each with its jobs and edges in one transaction, after its source archive."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        sources: Sources,
        keys: IdempotencyKeys,
        groups: ConcurrencyGroups,
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
        self._jobs = JobInserter(database)
        self._next_number = Query(
            database,
            PipelineRow.update({PipelineRow.build_count: PipelineRow.build_count + 1})
            .where(PipelineRow.id == slot("id"), PipelineRow.deleted_at.is_null())
            .returning(PipelineRow.build_count),
            first,
        )
        self._strict_shell = Query(
            database,
            PipelineRow.select(peewee.fn.COALESCE(PipelineRow.strict_shell, OrganizationRow.strict_shell))
            .join(OrganizationRow)
            .where(PipelineRow.id == slot("id")),
            first,
        )
        self._insert = Write(
            database,
            insert_into(
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
        self._inserted = Query(database, existing_builds().where(BuildRow.id == slot("id")), BUILD)

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
                number = self._next_number.one(id=pipeline.id)
                if number is None:
                    raise PipelineGone(f'the pipeline "{pipeline.slug}" was deleted: no build is created')
                strict_shell = self._strict_shell.one(id=pipeline.id)
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
                    "strict_shell": self._host_strict_shell if strict_shell is None else bool(strict_shell),
                    "env": self._vault.seal(json.dumps(dict(new.env)).encode()) if new.env else None,
                }
                build_id = self._insert.insert(**_NEW(new) | fields)
                build = written(self._inserted.one(id=build_id))
                self._jobs.insert(build, jobs, now)
                if new.key is not None:
                    self._keys.claim(new.key, build_id, rejected=state.terminal)
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
