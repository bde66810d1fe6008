"""The schedule runner: builds pipelines that are due or follow others, and says why it does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, assert_never

from actors.builds.adding import add_planned, has_credit
from actors.builds.retrying import repetition
from actors.ir import EVENT_VARIABLE, ScheduleInvalid, ScheduleTimes, UpstreamValue
from actors.messages import BuildCreated, Drain, PollStorage, ScheduleRunnerMessage
from actors.render.envelope import RenderFailed
from actors.repositories.fetching.remote import GitError
from actors.scheduling.pending_reason import admission_block
from actors.supervision import Supervised
from actors.vms import VmError
from storage import PipelineTrigger, Schedule, SealBroken, SourceGone, TooManyBuilds, VerifiedEvent, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from actors.ir import IrSettings
    from actors.parts import Parts
    from actors.repositories.pushes import PushBuilds
    from storage import Build, NewBuild, Pipeline, Storage


_SCHEDULE = "schedule"
_FOLLOWED = "trigger_job"
"""The source of a build that follows one of another pipeline."""

_EVENT = "pipeline"
_MOST_FAILURES = 6
_FIRST_PAUSE = 60.0
_AT_ONCE = 4
_OF_ONE = 2
_STEP = timedelta(hours=1)
"""A clock that is set back by more was wrong before: no schedule waits for that time to come again."""


Due: TypeAlias = Schedule | PipelineTrigger


class NothingBuilt(Exception):
    """A schedule or trigger cannot make a build now; the message says why, and what to do."""


def head_build(storage: Storage, pushes: Callable[[], PushBuilds], due: Due) -> NewBuild | None:
    """Return the build of a branch's head; None if the pipeline's repository is not connected.

    It blocks: it fetches, and renders in a VM. Raises NothingBuilt.
    """
    pipeline = _buildable(storage, due)
    source, event = _source_of(due), VerifiedEvent.SCHEDULE if isinstance(due, Schedule) else VerifiedEvent.PIPELINE
    repository = storage.repositories.of_pipeline(pipeline)
    if repository is None or pipeline.source_slug is None:
        return None
    try:
        return pushes().head_build(repository, pipeline.source_slug, due.branch, source, event)
    except (GitError, RenderFailed, VmError) as error:
        raise NothingBuilt(str(error)) from error


def add_due_build(storage: Storage, limits: IrSettings, due: Due, head: NewBuild | None) -> Build:
    """Add the build of a schedule or trigger: of its branch's head if that is known. Raises NothingBuilt.

    A schedule has at most one unfinished build, so that slow builds do not pile up.
    """
    pipeline = _buildable(storage, due)
    if head is not None:
        new = _followed(storage, pipeline, due, head, head.env)
        if new.pipeline_ir is None:
            return storage.renders.begin(pipeline, new, None)
        return add_planned(storage, limits, pipeline, new).build
    latest = storage.builds.latest(pipeline.id, due.branch)
    if latest is None:
        raise NothingBuilt(f'there is no build of the branch "{due.branch}" to repeat: create one')
    try:
        return _repeat(storage, limits, pipeline, latest, due)
    except SourceGone as error:
        raise NothingBuilt(str(error)) from None
    except SealBroken:
        raise NothingBuilt(f"the environment of build {latest.number} cannot be read: create another build") from None


def _source_of(due: Due) -> str:
    return _SCHEDULE if isinstance(due, Schedule) else _FOLLOWED


def _followed(storage: Storage, pipeline: Pipeline, due: Due, new: NewBuild, env: Mapping[str, str]) -> NewBuild:
    """Return a new build with these variables, and with those that say which build it follows.

    It has the inputs that this one gives. What pays for it pays for the new one, too, but in no other organization.
    Raises NothingBuilt.
    """
    if isinstance(due, Schedule):
        return replace(new, env=env, upstream_id=None)
    upstream = _upstream(storage, due, pipeline.organization_id)
    return replace(
        new,
        env={**env, EVENT_VARIABLE: _EVENT, "CI_UPSTREAM_BUILD": upstream.name},
        inputs={**new.inputs, **_given_inputs(storage, upstream, due.inputs)},
        budget_id=upstream.budget_id if upstream.organization_id == pipeline.organization_id else None,
        upstream_id=upstream.id,
    )


def _given_inputs(storage: Storage, upstream: Build, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the inputs that a build gives one that follows it, of its own inputs and outputs.

    What it does not have is left out, so that the input has its default: a job that failed may have given nothing.
    Whether a value fits is known as the build that follows is planned.
    """
    values = {name: UpstreamValue.of(text) for name, text in wanted.items()}
    inputs: Mapping[str, str] = {}
    if any(each is not None and each.job is None for each in values.values()):
        from actors.ir import values_of_inputs  # noqa: PLC0415 - few pipelines follow others

        inputs = values_of_inputs(storage.builds.pipeline_ir(upstream.id) or "{}", upstream.inputs)
    keys = {each.job for each in values.values() if each is not None}
    outputs: dict[str, Mapping[str, str]] = {}
    for job in storage.jobs.of_build(upstream.id):
        told = storage.told.outputs(job.id) if job.step_key in keys else None
        if told is not None:
            outputs[job.step_key] = told.variables
    given = {}
    for name, value in values.items():
        source = inputs if value is None or value.job is None else outputs.get(value.job, {})
        if value is not None and value.name in source:
            given[name] = source[value.name]
    return given


def _upstream(storage: Storage, trigger: PipelineTrigger, organization_id: int) -> Build:
    """Return the build that is to be followed. Raises NothingBuilt if it may not be any more, or is gone."""
    upstream = None if trigger.upstream_id is None else storage.builds.get(trigger.upstream_id)
    pipeline = None if upstream is None else storage.pipelines.by_id(upstream.pipeline_id)
    if upstream is None or pipeline is None or not storage.pipelines.may_follow(organization_id, pipeline):
        raise NothingBuilt(f'there is no pipeline "{trigger.slug}" to follow')
    return upstream


def _buildable(storage: Storage, due: Due) -> Pipeline:
    """Return the pipeline of a schedule or trigger, if it may be built now. Raises NothingBuilt."""
    pipeline = storage.pipelines.by_id(due.pipeline_id)
    if pipeline is None or storage.declarations.archived(pipeline.id):
        raise NothingBuilt("the repository no longer declares the pipeline, so it is not built")
    if not has_credit(storage, pipeline.organization_id):
        raise NothingBuilt("the organization has no credit, and this service requires it")
    if not isinstance(due, Schedule):
        _upstream(storage, due, pipeline.organization_id)
    number = due.last_build_number
    last = None if number is None else storage.builds.by_number(pipeline.id, number)
    if last is not None and not last.state.terminal:
        what = "schedule" if isinstance(due, Schedule) else "trigger"
        raise NothingBuilt(f"build {last.number} of this {what} has not ended yet")
    try:
        storage.build_room.require(pipeline.organization_id)
    except TooManyBuilds as error:
        raise NothingBuilt(str(error)) from None
    return pipeline


def _repeat(storage: Storage, limits: IrSettings, pipeline: Pipeline, build: Build, due: Due) -> Build:
    """Add a build that repeats another one. Raises NothingBuilt, SourceGone and SealBroken."""
    repeated, source_url = repetition(storage, build, _source_of(due))
    env = {name: text for name, text in repeated.env.items() if name != EVENT_VARIABLE}
    new = _followed(storage, pipeline, due, repeated, env)
    if not new.pipeline_ir:
        if not new.has_source and not source_url:
            raise NothingBuilt(f"build {build.number} has neither pipeline nor source: create another one")
        return storage.renders.begin(pipeline, new, source_url)
    return add_planned(storage, limits, pipeline, new).build


@immutable
class _Fire:
    """Work on a worker thread: make the build of a schedule or trigger that is due."""

    due: Due

    def __str__(self) -> str:
        return _named(self.due)


@immutable
class _Fired:
    """Worker: this schedule or trigger was moved on."""

    key: tuple[str, int]


class ScheduleRunner(Supervised[ScheduleRunnerMessage | _Fired, _Fire]):
    """Makes the builds of schedules that are due, and of pipelines that follow others.

    Each is made once however late it is, while VMs are granted.

    Four at once, and of one organization two, so that slow repositories hold up no schedules of others.

    A schedule's next time and its build are one transaction, so that a successor, in this process or the next, makes
    each build once.
    """

    def __init__(self, parts: Parts, *, pushes: Callable[[], PushBuilds]) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._root = parts.addresses.root
        self._storage = parts.storage
        self._pushes = pushes
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._firing: dict[tuple[str, int], int] = {}
        """The organizations of the schedules and triggers whose builds are made now."""

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
            case _Fired(key):
                self._firing.pop(key, None)
                self._fire_due()
            case _:
                assert_never(message)

    def on_task_error(self, task: _Fire, error: Exception) -> None:
        """Log the error; the schedule goes on with its next time, the trigger after a pause."""
        super().on_task_error(task, error)
        self._firing.pop(_key(task.due), None)
        self._skip(task.due, "an internal error, see `ci-daemon logs`")

    def _fire_due(self) -> None:
        """Fire the schedules and triggers that are due, a few at once, of which one organization has half.

        A schedule of a slow repository takes long, and so may many.
        """
        while not self._draining and len(self._firing) < _AT_ONCE:
            busy = [each for each, count in Counter(self._firing.values()).items() if count >= _OF_ONE]
            due = self._next_due(busy)
            if due is None or admission_block(self._storage, self._live_settings.now.pool.low_disk_gb) is not None:
                return
            pipeline = self._storage.pipelines.by_id(due.pipeline_id)
            self._firing[_key(due)] = 0 if pipeline is None else pipeline.organization_id
            self._start(due)

    def _next_due(self, busy: Collection[int]) -> Due | None:
        """Return what is due, without that of busy organizations: schedules first."""
        for kind, owner in ((_SCHEDULE, self._storage.schedules), (_EVENT, self._storage.pipeline_triggers)):
            firing = [number for of_kind, number in self._firing if of_kind == kind]
            for each in owner.due(1, firing, busy):
                return each
        return None

    def _start(self, due: Due) -> None:
        def run() -> _Fired:
            self._fire(due)
            return _Fired(_key(due))

        self.work(_Fire(due), run)

    def _fire(self, due: Due) -> None:
        """Make the build of a schedule or trigger and move it on, or note why there is none."""
        try:
            head = head_build(self._storage, self._pushes, due)
            with self._storage.transaction():
                build = self._build(due, head)
        except NothingBuilt as why:
            self._skip(due, str(why))
            return
        if build is not None:
            self._root.post(BuildCreated(build.id))

    def _build(self, due: Due, head: NewBuild | None) -> Build | None:
        """Add the build, in the caller's transaction; None if what is due was changed or deleted meanwhile."""
        if not self._take(due):
            return None
        build = add_due_build(self._storage, self._live_settings.now.ir, due, head)
        if isinstance(due, Schedule):
            self._storage.schedules.built(due.id, build.number)
        else:
            self._storage.pipeline_triggers.built(due, build)
        return build

    def _take(self, due: Due) -> bool:
        if isinstance(due, Schedule):
            return self._storage.schedules.take(due, self._next(due))
        return self._storage.pipeline_triggers.take(due)

    def _skip(self, due: Due, why: str) -> None:
        self.log.warning("%s made no build: %s", _named(due), why)
        with self._storage.transaction():
            if not isinstance(due, Schedule):
                self._storage.pipeline_triggers.failed(due, why, _FIRST_PAUSE * 2**due.failures)
                if due.failures + 1 >= _MOST_FAILURES:
                    self._take(due)
            elif self._take(due):
                self._storage.schedules.failed(due.id, why)

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


def _key(due: Due) -> tuple[str, int]:
    return (_SCHEDULE if isinstance(due, Schedule) else _EVENT), due.id


def _named(due: Due) -> str:
    if isinstance(due, Schedule):
        return f"schedule {due.uuid}"
    return f"the trigger {due.id} after {due.slug}"
