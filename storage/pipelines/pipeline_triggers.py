"""Pipeline triggers: pipelines that are built after builds of others (pipeline-ir.md, "Triggers")."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, BuildUpstreamRow
from storage.models.pipelines import PipelineRow, PipelineTriggerRow
from storage.records.builds import HEADS, BuildState
from storage.records.pipelines import NewPipelineTrigger, PipelineTrigger, TriggerState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.pipelines import Pipeline

_TRIGGER = Columns.of(PipelineTrigger, PipelineTriggerRow)
_NEW: Slots[NewPipelineTrigger] = Slots(NewPipelineTrigger, PipelineTriggerRow)
_DEEPEST = 8
"""The most builds that follow one another."""

_STATES = {
    BuildState.PASSED: {TriggerState.PASSED, TriggerState.ALWAYS},
    BuildState.FAILED: {TriggerState.FAILED, TriggerState.ALWAYS},
}


class _Upstream(NamedTuple):
    """A build that another one followed, and its pipeline."""

    build_id: int
    pipeline_id: int


class PipelineTriggers:
    """The triggers by which pipelines follow others, also of other organizations. Safe in any thread.

    The end of a build marks the triggers that want it, in the transaction that notes the end as told; of several ends
    the last one counts. No build follows one that its own pipeline's build led to, so that none go round for ever.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this, of_pipeline = PipelineTriggerRow.id == slot("id"), PipelineTriggerRow.pipeline == slot("pipeline_id")
        triggers = PipelineTriggerRow.select(*_TRIGGER.selected)
        self._of_pipeline = Query(
            database, lambda: triggers.where(of_pipeline).order_by(PipelineTriggerRow.id), _TRIGGER
        )
        self._named = Query(
            database,
            lambda: triggers.join(PipelineRow).where(
                PipelineRow.organization == slot("organization_id"),
                PipelineRow.deleted_at.is_null(),
                PipelineTriggerRow.slug.in_([slot("slug"), slot("source_slug"), slot("address")]),
            ),
            _TRIGGER,
        )
        self._of_others = Query(
            database,
            lambda: (
                triggers.join(PipelineRow)
                .join(OrganizationRow)
                .where(
                    PipelineTriggerRow.slug == slot("address"),
                    PipelineRow.organization != slot("organization_id"),
                    PipelineRow.deleted_at.is_null(),
                    OrganizationRow.slug.in_(peewee.SQL("(SELECT value FROM json_each(:followers))")),
                )
            ),
            _TRIGGER,
        )
        sibling: Any = PipelineRow.alias()
        self._sibling = Query(
            database,
            lambda: (
                PipelineRow.select(PipelineRow.id)
                .join(sibling, on=(sibling.repository == PipelineRow.repository))
                .where(
                    sibling.id == slot("pipeline_id"),
                    PipelineRow.organization == sibling.organization,
                    PipelineRow.source_slug == slot("slug"),
                    PipelineRow.deleted_at.is_null(),
                )
                .order_by(PipelineRow.id)
                .limit(1)
            ),
            first,
        )
        unfinished = BuildRow.select(BuildRow.id).where(
            BuildRow.pipeline == PipelineTriggerRow.pipeline,
            BuildRow.number == PipelineTriggerRow.last_build_number,
            BuildRow.finished_at.is_null(),
        )
        self._due = Query(
            database,
            lambda: (
                triggers.join(PipelineRow)
                .where(
                    PipelineTriggerRow.upstream_id.is_null(is_null=False),
                    PipelineTriggerRow.not_before.is_null() | (PipelineTriggerRow.not_before <= slot("now")),
                    PipelineTriggerRow.id.not_in(peewee.SQL("(SELECT value FROM json_each(:firing))")),
                    PipelineRow.organization.not_in(peewee.SQL("(SELECT value FROM json_each(:busy))")),
                    ~peewee.fn.EXISTS(unfinished),
                )
                .order_by(PipelineTriggerRow.id)
                .limit(slot("limit"))
            ),
            _TRIGGER,
        )
        self._upstream = Query(
            database,
            lambda: (
                BuildUpstreamRow.select(BuildUpstreamRow.upstream_id, BuildRow.pipeline)
                .join(BuildRow, on=(BuildRow.id == BuildUpstreamRow.upstream_id))
                .where(BuildUpstreamRow.build == slot("build_id"))
            ),
            lambda row: _Upstream(int(row[0]), int(row[1])),
        )
        self._insert = Write(
            database,
            lambda: insert_into(
                PipelineTriggerRow, "upstream_id", "not_before", "failures", "last_build_number", "last_error"
            ),
        )
        self._remove = Write(database, lambda: PipelineTriggerRow.delete().where(this))
        self._mark = Write(
            database,
            lambda: PipelineTriggerRow.update(
                {
                    PipelineTriggerRow.upstream_id: slot("upstream_id"),
                    PipelineTriggerRow.not_before: None,
                    PipelineTriggerRow.failures: 0,
                }
            ).where(this),
        )
        self._take = Write(
            database,
            lambda: PipelineTriggerRow.update({PipelineTriggerRow.upstream_id: None}).where(
                this, PipelineTriggerRow.upstream_id == slot("upstream_id")
            ),
        )
        self._built = Write(
            database,
            lambda: PipelineTriggerRow.update(
                {PipelineTriggerRow.last_build_number: slot("number"), PipelineTriggerRow.last_error: None}
            ).where(this),
        )
        self._failed = Write(
            database,
            lambda: PipelineTriggerRow.update(
                {
                    PipelineTriggerRow.last_error: slot("why"),
                    PipelineTriggerRow.not_before: slot("not_before"),
                    PipelineTriggerRow.failures: PipelineTriggerRow.failures + 1,
                }
            ).where(this),
        )

    def declare(self, pipeline_id: int, declared: Iterable[NewPipelineTrigger]) -> None:
        """Let a pipeline have these triggers and no others; one that it has already stays as it is."""
        with self._database.write():
            wanted = list(declared)
            kept = []
            for each in self.of_pipeline(pipeline_id):
                same = NewPipelineTrigger(each.slug, each.state, each.branch, each.declared_in, each.inputs)
                if same in wanted:
                    kept.append(same)
                else:
                    self._remove.run(id=each.id)
            for place, added in enumerate(wanted):
                if added not in kept and added not in wanted[:place]:
                    self._insert.insert(pipeline_id=pipeline_id, created_at=self._database.now(), **_NEW(added))

    def of_pipeline(self, pipeline_id: int) -> list[PipelineTrigger]:
        """Return the triggers of a pipeline, oldest first."""
        return self._of_pipeline.all(pipeline_id=pipeline_id)

    def follow(self, build: Build, pipeline: Pipeline) -> None:
        """Mark the triggers that want the end of a build of a pipeline, in the caller's transaction.

        Only builds of the default branch are followed, and none of a fork. Other organizations follow where they may,
        and only builds whose branch the service has verified.
        """
        states = _STATES.get(build.state)
        if states is None or build.from_fork or build.branch != pipeline.default_branch:
            return
        address = f"{build.organization_slug}/{pipeline.slug}"
        names = {"slug": pipeline.slug, "source_slug": pipeline.source_slug or pipeline.slug, "address": address}
        for each in self._named.all(organization_id=pipeline.organization_id, **names):
            sibling = self._sibling.one(pipeline_id=each.pipeline_id, slug=each.slug)
            named = sibling == pipeline.id if sibling is not None else each.slug in {pipeline.slug, address}
            if each.state in states and named:
                self._follow(each, build)
        if pipeline.followers and build.verified_ref == f"{HEADS}{build.branch}":
            followers = json.dumps(pipeline.followers)
            for each in self._of_others.all(
                organization_id=pipeline.organization_id, address=address, followers=followers
            ):
                if each.state in states:
                    self._follow(each, build)

    def _follow(self, trigger: PipelineTrigger, build: Build) -> None:
        before, pipelines = build.id, [build.pipeline_id]
        while trigger.pipeline_id not in pipelines and len(pipelines) < _DEEPEST:
            upstream = self._upstream.one(build_id=before)
            if upstream is None:
                self._mark.run(id=trigger.id, upstream_id=build.id)
                return
            before = upstream.build_id
            pipelines.append(upstream.pipeline_id)
        if trigger.pipeline_id in pipelines:
            why = f"a build of this pipeline led to {build.name}: if another one followed, they would never end"
        else:
            why = f"{build.name} is the last of {_DEEPEST} builds that followed one another: no other follows"
        self._failed.run(id=trigger.id, why=why, not_before=None)

    def upstream_id(self, build_id: int) -> int | None:
        """Return the id of the build that a build follows; None if it follows none."""
        upstream = self._upstream.one(build_id=build_id)
        return None if upstream is None else upstream.build_id

    def due(self, limit: int, firing: Collection[int] = (), busy: Collection[int] = ()) -> list[PipelineTrigger]:
        """Return triggers whose pipeline is to be built, unless its last build of the trigger has not ended.

        Without those ``firing``, and those of ``busy`` organizations, by their ids.
        """
        return self._due.all(
            now=self._database.now(), limit=limit, firing=json.dumps(list(firing)), busy=json.dumps(list(busy))
        )

    def take(self, trigger: PipelineTrigger) -> bool:
        """Let a trigger be due no more; False if it was taken, removed, or has another build to follow."""
        with self._database.write():
            return self._take.run(id=trigger.id, upstream_id=trigger.upstream_id) == 1

    def built(self, trigger: PipelineTrigger, build: Build) -> None:
        """Note the build that a trigger made."""
        with self._database.write():
            self._built.run(id=trigger.id, number=build.number)

    def failed(self, trigger: PipelineTrigger, why: str, pause: float) -> None:
        """Note why a trigger built nothing, and the seconds until it is tried again."""
        with self._database.write():
            self._failed.run(id=trigger.id, why=why, not_before=self._database.now() + int(pause * SECOND))
