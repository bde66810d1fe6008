"""Pipelines. Deleted ones are not found here; their rows stay for the costs of their builds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import peewee

from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot, written
from storage.errors import PipelineBusy, PipelineGone, SlugTaken
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow
from storage.models.leases import CacheRow, DeclarationRow, KeptDiskRow, PreviewRow
from storage.models.notifications import NotificationRow
from storage.models.pipelines import PipelineRow, PipelineTriggerRow, ScheduleRow, SecretRow
from storage.records.pipelines import (
    CancelSuperseded,
    NewPipeline,
    Pipeline,
    PipelineChanges,
)

if TYPE_CHECKING:
    from typing import Unpack

    from storage.billing.holds import Holds
    from storage.database.connection import Database
    from storage.documents import Page


_PIPELINE = Columns.of(Pipeline, PipelineRow)
_NEW: Slots[NewPipeline] = Slots(NewPipeline, PipelineRow)
_CHANGED: Slots[Pipeline] = Slots(Pipeline, PipelineRow)
_CHANGEABLE = tuple(PipelineChanges.__annotations__)


class Pipelines:
    """The pipelines of organizations. Safe in any thread."""

    def __init__(self, database: Database, holds: Holds) -> None:
        self._database = database
        self._holds = holds
        this, existing = PipelineRow.id == slot("id"), PipelineRow.deleted_at.is_null()
        pipelines = PipelineRow.select(*_PIPELINE.selected).where(existing)
        archived = DeclarationRow.select(DeclarationRow.pipeline).where(
            DeclarationRow.pipeline == PipelineRow.id, DeclarationRow.archived_at.is_null(is_null=False)
        )
        standing = pipelines.where(~peewee.fn.EXISTS(archived))
        of_organization = PipelineRow.organization == slot("organization_id")
        self._by_id = Query(database, lambda: pipelines.where(this), _PIPELINE)
        self._by_slug = Query(
            database, lambda: pipelines.where(of_organization, PipelineRow.slug == slot("slug")), _PIPELINE
        )
        self._by_source = Query(
            database,
            lambda: (
                standing.where(
                    of_organization,
                    PipelineRow.repo_name == slot("repo_name"),
                    PipelineRow.source_slug == slot("source_slug"),
                )
                .order_by(PipelineRow.id)
                .limit(1)
            ),
            _PIPELINE,
        )
        own: Any = PipelineRow.alias()
        self._beside = Query(
            database,
            lambda: (
                pipelines.join(own, on=(own.organization == PipelineRow.organization))
                .where(
                    own.id == slot("pipeline_id"),
                    PipelineRow.repository == own.repository,
                    PipelineRow.source_slug == slot("name"),
                )
                .order_by(PipelineRow.id)
                .limit(1)
            ),
            _PIPELINE,
        )
        self._of_owner = Query(
            database,
            lambda: pipelines.join(OrganizationRow).where(
                OrganizationRow.slug == slot("owner"),
                OrganizationRow.closed_at.is_null(),
                PipelineRow.slug == slot("slug"),
            ),
            _PIPELINE,
        )
        self._organization_slug = Query(
            database,
            lambda: OrganizationRow.select(OrganizationRow.slug).where(OrganizationRow.id == slot("id")),
            lambda row: str(row[0]),
        )
        self._page = Query(
            database,
            lambda: (
                standing.where(of_organization, PipelineRow.id > slot("after"))
                .order_by(PipelineRow.id)
                .limit(slot("limit"))
            ),
            _PIPELINE,
        )
        self._unfinished_count = Query(
            database,
            lambda: BuildRow.select(peewee.fn.COUNT(peewee.SQL("*"))).where(
                BuildRow.pipeline == slot("pipeline_id"), BuildRow.finished_at.is_null()
            ),
            first,
        )
        self._fails_fast = Query(
            database,
            lambda: (
                PipelineRow.select(PipelineRow.fail_fast | OrganizationRow.fail_fast).join(OrganizationRow).where(this)
            ),
            first,
        )
        finds = peewee.fn.COALESCE(PipelineRow.find_culprits, OrganizationRow.find_culprits)
        self._find_culprits: Query[bool | None] = Query(
            database,
            lambda: PipelineRow.select(finds).join(OrganizationRow).where(this),
            lambda row: None if row[0] is None else bool(row[0]),
        )
        superseded = peewee.fn.COALESCE(PipelineRow.cancel_superseded, OrganizationRow.cancel_superseded)
        self._cancel_superseded: Query[CancelSuperseded | None] = Query(
            database,
            lambda: PipelineRow.select(superseded).join(OrganizationRow).where(this),
            lambda row: None if row[0] is None else CancelSuperseded(row[0]),
        )
        self._update = Write(
            database,
            lambda: PipelineRow.update({getattr(PipelineRow, name): slot(name) for name in _CHANGEABLE}).where(this),
        )
        self._delete = Write(
            database, lambda: PipelineRow.update({PipelineRow.deleted_at: slot("now")}).where(this, existing)
        )
        self._forget_cache = Write(database, lambda: CacheRow.delete().where(CacheRow.pipeline == slot("id")))
        self._forget_disks = Write(database, lambda: KeptDiskRow.delete().where(KeptDiskRow.pipeline == slot("id")))
        self._end_previews = Write(
            database,
            lambda: PreviewRow.update({PreviewRow.ended_at: slot("now"), PreviewRow.why_ended: slot("why")}).where(
                PreviewRow.pipeline == slot("id"), PreviewRow.ended_at.is_null()
            ),
        )
        self._forget_secrets = Write(database, lambda: SecretRow.delete().where(SecretRow.pipeline == slot("id")))
        self._forget_triggers = Write(
            database, lambda: PipelineTriggerRow.delete().where(PipelineTriggerRow.pipeline == slot("id"))
        )
        self._forget_schedules = Write(database, lambda: ScheduleRow.delete().where(ScheduleRow.pipeline == slot("id")))
        self._forget_notifications = Write(
            database, lambda: NotificationRow.delete().where(NotificationRow.pipeline == slot("id"))
        )
        self._insert = Write(database, lambda: insert_into(PipelineRow, "last_number", "deleted_at", "followers"))

    def create(self, organization_id: int, new: NewPipeline) -> Pipeline:
        """Add a pipeline. Raises SlugTaken."""
        with self._database.write():
            if self.by_slug(organization_id, new.slug) is not None:
                raise SlugTaken(f'the organization has a pipeline "{new.slug}" already: choose another name')
            pipeline_id = self._insert.insert(
                uuid=str(uuid4()),
                organization_id=organization_id,
                created_at=self._database.now(),
                **_NEW(new),
            )
            return written(self._by_id.one(id=pipeline_id))

    def update(self, pipeline_id: int, **changes: Unpack[PipelineChanges]) -> Pipeline:
        """Change the given fields; return the pipeline. Its slug stays. Raises PipelineGone."""
        with self._database.write():
            pipeline = self._by_id.one(id=pipeline_id)
            if pipeline is None:
                raise PipelineGone("the pipeline was deleted: nothing is changed")
            changed = replace(pipeline, **changes)
            values = _CHANGED(changed)
            self._update.run(id=pipeline_id, **{name: values[name] for name in _CHANGEABLE})
            return changed

    def delete(self, pipeline_id: int) -> None:
        """Delete a pipeline and all that is only its own, and end the holds of its jobs' VMs. Idempotent.

        Its builds are no longer found, but their costs stay in the ledger. Raises PipelineBusy if the pipeline has
        unfinished builds. A build that is created at the same time either counts as unfinished or is refused.
        """
        with self._database.write():
            unfinished = self._unfinished_count.one(pipeline_id=pipeline_id)
            if unfinished:
                raise PipelineBusy(f"{unfinished} of its builds are not finished: cancel them, or wait for their end")
            self._delete.run(id=pipeline_id, now=self._database.now())
            self._forget_cache.run(id=pipeline_id)
            self._forget_disks.run(id=pipeline_id)
            self._end_previews.run(id=pipeline_id, now=self._database.now(), why="its pipeline was deleted")
            self._forget_secrets.run(id=pipeline_id)
            self._forget_schedules.run(id=pipeline_id)
            self._forget_triggers.run(id=pipeline_id)
            self._forget_notifications.run(id=pipeline_id)
            self._holds.forget(pipeline_id=pipeline_id)

    def fails_fast(self, pipeline_id: int) -> bool:
        """Tell whether a pipeline's builds fail fast, by its own setting or its organization's."""
        return bool(self._fails_fast.one(id=pipeline_id))

    def find_culprits(self, pipeline_id: int) -> bool | None:
        """Return whether a pipeline or its organization lets culprits be searched; None leaves it to the host."""
        return self._find_culprits.one(id=pipeline_id)

    def cancel_superseded(self, pipeline_id: int) -> CancelSuperseded | None:
        """Return which superseded builds a pipeline or its organization cancels; None if neither says."""
        return self._cancel_superseded.one(id=pipeline_id)

    def by_id(self, pipeline_id: int) -> Pipeline | None:
        """Return a pipeline by row id."""
        return self._by_id.one(id=pipeline_id)

    def by_slug(self, organization_id: int, slug: str) -> Pipeline | None:
        """Return an organization's pipeline by slug."""
        return self._by_slug.one(organization_id=organization_id, slug=slug)

    def by_source(self, organization_id: int, repo_name: str, source_slug: str) -> Pipeline | None:
        """Return an organization's oldest pipeline of a repository with this source slug.

        The case of ``repo_name`` is ignored.
        """
        return self._by_source.one(organization_id=organization_id, repo_name=repo_name, source_slug=source_slug)

    def named(self, organization_id: int, pipeline_id: int, name: str) -> Pipeline | None:
        """Return the pipeline that the file of an organization's pipeline means by a name.

        That is the one of this name in the same repository, or else the one of this slug in the organization. One of
        another organization is meant by both slugs with a slash between; without its leave to follow it there is none.
        """
        owner, slash, slug = name.partition("/")
        if slash:
            found = self._of_owner.one(owner=owner, slug=slug)
            return found if found is not None and self.may_follow(organization_id, found) else None
        return self._beside.one(pipeline_id=pipeline_id, name=name) or self.by_slug(organization_id, name)

    def may_follow(self, organization_id: int, pipeline: Pipeline) -> bool:
        """Tell whether an organization's pipelines may follow a pipeline, and take its files."""
        own = pipeline.organization_id == organization_id
        return own or self._organization_slug.one(id=organization_id) in pipeline.followers

    def page(self, organization_id: int, limit: int, after: int | None) -> Page[Pipeline]:
        """Return an organization's pipelines past the key ``after``, oldest first."""
        return self._page.page(limit, lambda pipeline: pipeline.id, organization_id=organization_id, after=after or 0)
