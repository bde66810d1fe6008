"""The schedule runner: builds pipelines when their schedules are due, and says why it does not."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from actors.builds.adding import add_planned, has_credit
from actors.builds.retrying import repetition
from actors.messages import BuildCreated, Drain, PollStorage, ScheduleRunnerMessage
from actors.render.envelope import RenderFailed
from actors.repositories.fetching.git import GitError
from actors.schedules.times import ScheduleInvalid, ScheduleTimes
from actors.scheduling.pending_reason import admission_block
from actors.supervision import Supervised
from actors.vms import VmError
from storage import SealBroken, SourceGone, TooManyBuilds, immutable

if TYPE_CHECKING:
    from datetime import datetime

    from actors.ir import IrSettings
    from actors.parts import Parts
    from actors.repositories.pushes import PushBuilds
    from storage import Build, NewBuild, Pipeline, Schedule, Storage


_SCHEDULE = "schedule"
_AT_ONCE = 4
_OF_ONE = 2
_STEP = timedelta(hours=1)
"""A clock that is set back by more was wrong before: no schedule waits for that time to come again."""


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
        return add_planned(storage, limits, pipeline, head)
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
    if not has_credit(storage, pipeline.organization_id):
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
    return add_planned(storage, limits, pipeline, new)


@immutable
class _Fire:
    """Work on a worker thread: make the build of a schedule that is due."""

    schedule: Schedule

    def __str__(self) -> str:
        return f"schedule {self.schedule.uuid}"


@immutable
class _Fired:
    """Worker: this schedule was moved on."""

    schedule_id: int


class ScheduleRunner(Supervised[ScheduleRunnerMessage | _Fired, _Fire]):
    """Makes the builds of schedules that are due, once however late it is, while VMs are granted.

    Four at once, and of one organization two, so that slow repositories hold up no schedules of others.

    A schedule's next time and its build are one transaction, so that a successor, in this process or the next, makes
    each build once.
    """

    def __init__(self, parts: Parts, *, pushes: PushBuilds) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._root = parts.addresses.root
        self._storage = parts.storage
        self._pushes = pushes
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._firing: dict[int, int] = {}
        """The organizations of the schedules whose builds are made now."""

        self._draining = False
        self._seen = parts.clock.now()

    def begin(self) -> None:
        """Correct the schedules of a clock that was ahead."""
        self._correct()

    def handle(self, message: ScheduleRunnerMessage | _Fired) -> None:
        """Fire what is due."""
        match message:
            case PollStorage():
                self._follow_clock()
                self._fire_due()
            case Drain():
                self._draining = True
            case _Fired(schedule_id):
                self._firing.pop(schedule_id, None)
                self._fire_due()
            case _:
                assert_never(message)

    def on_task_error(self, task: _Fire, error: Exception) -> None:
        """Log the error; the schedule goes on with its next time."""
        super().on_task_error(task, error)
        self._firing.pop(task.schedule.id, None)
        self._skip(task.schedule, "an internal error, see `ci-daemon logs`")

    def _fire_due(self) -> None:
        """Fire the schedules that are due, a few at once, of which one organization has half.

        A schedule of a slow repository takes long, and so may many.
        """
        while not self._draining and len(self._firing) < _AT_ONCE:
            busy = [each for each, count in Counter(self._firing.values()).items() if count >= _OF_ONE]
            due = self._storage.schedules.due(1, self._firing.keys(), busy)
            if not due or admission_block(self._storage, self._live_settings.now.pool.low_disk_gb) is not None:
                return
            pipeline = self._storage.pipelines.by_id(due[0].pipeline_id)
            self._firing[due[0].id] = 0 if pipeline is None else pipeline.organization_id
            self._start(due[0])

    def _start(self, schedule: Schedule) -> None:
        def run() -> _Fired:
            self._fire(schedule)
            return _Fired(schedule.id)

        self.work(_Fire(schedule), run)

    def _fire(self, schedule: Schedule) -> None:
        """Make a schedule's build and move it on, or note why there is none."""
        try:
            head = head_build(self._storage, self._pushes, schedule)
            with self._storage.transaction():
                build = self._build(schedule, head)
        except NothingBuilt as why:
            self._skip(schedule, str(why))
            return
        if build is not None:
            self._root.post(BuildCreated(build.id))

    def _build(self, schedule: Schedule, head: NewBuild | None) -> Build | None:
        """Add the build, in the caller's transaction; None if the schedule was changed or deleted meanwhile."""
        if not self._storage.schedules.take(schedule, self._next(schedule)):
            return None
        build = add_scheduled_build(self._storage, self._live_settings.now.ir, schedule, head)
        self._storage.schedules.built(schedule.id, build.number)
        return build

    def _skip(self, schedule: Schedule, why: str) -> None:
        self.log.warning("schedule %s made no build: %s", schedule.uuid, why)
        with self._storage.transaction():
            if self._storage.schedules.take(schedule, self._next(schedule)):
                self._storage.schedules.failed(schedule.id, why)

    def _next(self, schedule: Schedule) -> datetime | None:
        """Return a schedule's first time from now; None, which disables it, if there is none any more."""
        try:
            return ScheduleTimes(schedule.cron, schedule.timezone).after(self._clock.now())
        except ScheduleInvalid as error:
            self.log.warning("schedule %s is disabled: %s: %s", schedule.uuid, error.field, error)
            return None

    def _follow_clock(self) -> None:
        """Notice that the clock was set back."""
        before, self._seen = self._seen, self._clock.now()
        if before - self._seen > _STEP:
            self._correct()

    def _correct(self) -> None:
        """Move schedules to their next time from now if they wait for a much later one."""
        for schedule in self._storage.schedules.later(self._clock.now() + _STEP):
            soon = self._next(schedule)
            if soon is None or schedule.next_at is None or schedule.next_at - soon > _STEP:
                self._storage.schedules.take(schedule, soon)
