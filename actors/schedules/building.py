"""The build that a schedule makes: the head of its branch, or its branch's latest build again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.builds.repeating import repetition
from actors.ir import IrError, load
from actors.render.envelope import RenderFailed
from actors.repositories.fetching.git import GitError
from actors.vms import VmError
from storage import SealBroken, SourceGone, TooManyBuilds

if TYPE_CHECKING:
    from actors.ir import IrSettings
    from actors.repositories.pushes import PushBuilds
    from storage import Build, NewBuild, Pipeline, Schedule, Storage

_SCHEDULE = "schedule"


class NothingBuilt(Exception):
    """A schedule cannot make a build now; the message says why, and what to do."""


def head_build(storage: Storage, pushes: PushBuilds, schedule: Schedule) -> NewBuild | None:
    """Return the build of a branch's head; None if the pipeline's repository is not connected.

    It blocks: it fetches, and renders in a VM. Raises NothingBuilt.
    """
    pipeline = _buildable(storage, schedule)
    repository = storage.repositories.of_pipeline(pipeline)
    if repository is None or pipeline.source_slug is None:
        return None
    try:
        return pushes.head_build(repository, pipeline.source_slug, schedule.branch, _SCHEDULE)
    except (GitError, RenderFailed, VmError) as error:
        raise NothingBuilt(str(error)) from error


def add_scheduled_build(storage: Storage, limits: IrSettings, schedule: Schedule, head: NewBuild | None) -> Build:
    """Add the build of a schedule: of its branch's head if that is known. Raises NothingBuilt.

    A schedule has at most one unfinished build, so that slow builds do not pile up.
    """
    pipeline = _buildable(storage, schedule)
    if head is not None:
        return _planned(storage, limits, pipeline, head)
    latest = storage.builds.latest(pipeline.id, schedule.branch)
    if latest is None:
        raise NothingBuilt(f'there is no build of the branch "{schedule.branch}" to repeat: create one')
    try:
        return _repeat(storage, limits, pipeline, latest)
    except SourceGone as error:
        raise NothingBuilt(str(error)) from None
    except SealBroken:
        raise NothingBuilt(f"the environment of build {latest.number} cannot be read: create another build") from None


def _buildable(storage: Storage, schedule: Schedule) -> Pipeline:
    """Return the schedule's pipeline, if it may be built now. Raises NothingBuilt."""
    pipeline = storage.pipelines.by_id(schedule.pipeline_id)
    if pipeline is None or storage.declarations.archived(pipeline.id):
        raise NothingBuilt("the repository no longer declares the pipeline, so it is not built")
    if storage.billing.require_credit and storage.ledger.balance(pipeline.organization_id) <= 0:
        raise NothingBuilt("the organization has no credit, and this service requires it")
    number = schedule.last_build_number
    last = None if number is None else storage.builds.by_number(pipeline.id, number)
    if last is not None and not last.state.terminal:
        raise NothingBuilt(f"build {last.number} of this schedule has not ended yet")
    try:
        storage.build_room.require(pipeline.organization_id)
    except TooManyBuilds as error:
        raise NothingBuilt(str(error)) from None
    return pipeline


def _repeat(storage: Storage, limits: IrSettings, pipeline: Pipeline, build: Build) -> Build:
    """Add a build that repeats another one. Raises NothingBuilt, SourceGone and SealBroken."""
    new, source_url = repetition(storage, build, _SCHEDULE)
    if not new.pipeline_ir:
        if not new.has_source and not source_url:
            raise NothingBuilt(f"build {build.number} has neither pipeline nor source: create another one")
        return storage.renders.begin(pipeline, new, source_url)
    return _planned(storage, limits, pipeline, new)


def _planned(storage: Storage, limits: IrSettings, pipeline: Pipeline, new: NewBuild) -> Build:
    try:
        planned = load(new.pipeline_ir or "", limits)
    except IrError as error:
        return storage.builds.create_rejected(pipeline, new, error.code, error.message)
    planned_build = replace(new, timeout_seconds=planned.timeout_seconds, warnings=planned.warnings)
    return storage.builds.create(pipeline, planned_build, planned.jobs)
