"""The supervisor of one build: starts jobs in topological order, rolls up, cancels and times out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Never, assert_never

from actors.builds.graph import Graph
from actors.builds.internal_error import fail_job
from actors.builds.job_actors import JobActors
from actors.builds.job_transitions import JobTransitions
from actors.builds.outcome import JobFailure, timed_out_with_build
from actors.builds.states import JobEvent, Progress, roll_up
from actors.log_context import set_log_context
from actors.messages import (
    BuildMessage,
    BuildTimedOut,
    CacheHit,
    CancelBuild,
    ChildStopped,
    ForBuild,
    Granted,
    Idle,
    ImageFailed,
    JobChanged,
    QueueTimedOut,
    Reschedule,
    TurnGiven,
)
from actors.supervision import Supervised
from actors.timer import seconds_since
from storage import Build, BuildErrorCode, BuildState, Job, JobErrorCode, JobState, Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from datetime import datetime

    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.disk_cache import DiskCache
    from actors.builds.job_messages import JobMessage
    from actors.log_watchers import LogWatchers
    from actors.messages import LeasePoolMessage, RootMessage
    from actors.metrics import EngineMetrics
    from actors.timer import Timer
    from actors.timings import Timings
    from storage import Clock, Storage


__all__ = ["BuildSupervisor"]


class BuildSupervisor(Supervised[BuildMessage, Never]):
    """Holds one build's plan while any of its jobs runs.

    Its state comes from the storage and is written there before it is announced, so that a successor, in this process
    or in the next, continues where it stopped: starting is recovering.
    """

    def __init__(
        self,
        *,
        build_id: int,
        timer: Timer,
        root: Address[RootMessage],
        pool: Address[LeasePoolMessage],
        job_actor: Callable[[Address[BuildMessage], Assignment], Address[JobMessage]],
        storage: Storage,
        clock: Clock,
        cache: DiskCache,
        watchers: LogWatchers,
        metrics: EngineMetrics,
        timings: Timings,
    ) -> None:
        super().__init__(timer, root, timings.retry)
        self.build_id = build_id
        self._root = root
        self._pool = pool
        self._storage = storage
        self._clock = clock
        self._cache = cache
        self._watchers = watchers
        self._metrics = metrics
        self._received = 0
        self._job_actors = JobActors(partial(job_actor, self.address))
        self._failing_fast: set[int] = set()
        self._timed_out = False
        self._build: Build
        self._graph: Graph
        self._transitions: JobTransitions

    @property
    def doing(self) -> str:
        """The build, and the work under way."""
        return f"build {self.build_id}; {super().doing}"

    def begin(self) -> None:
        """Load the build, attach to its running jobs, and finish what an earlier supervisor left undone."""
        storage = self._storage
        build = storage.builds.get(self.build_id)
        if build is None:
            self._root.post(Idle(self.build_id, self.actor_urn, self._received, finished=True))
            return
        set_log_context(build=build.external_id)
        self._load(build)
        self._set_alarm()
        for job_id in filter(self._transitions.has_vm, self._graph):
            self._attach(job_id)
        if build.end_requested:
            self._end_jobs(JobEvent.CANCEL, self._graph)
        for job_id in self._graph:
            self._adopt_timeout(job_id)
        self._follow_up()
        self._report_if_idle()

    def _load(self, build: Build) -> None:
        """Take the build and its jobs as they are in the storage."""
        storage = self._storage
        self._build = build
        self._graph = Graph(storage.jobs.of_build(build.id), storage.jobs.edges(build.id))
        self._transitions = JobTransitions(
            build, self._graph, storage=storage, cache=self._cache, watchers=self._watchers, metrics=self._metrics
        )

    def _reopen(self) -> None:
        """Load the build again if it was retried since its end, or waits no longer."""
        build = self._storage.builds.get(self.build_id)
        if build is not None and not build.state.terminal:
            self._failing_fast.clear()
            self._timed_out = False
            self._load(build)

    def teardown(self) -> None:
        """Stop the job actors; their VMs run on."""
        self._job_actors.stop()

    def handle(self, message: BuildMessage) -> None:
        """Handle one event of the build."""
        if self._build.state.terminal or self._build.waits_for is not None:
            self._reopen()
        match message:
            case Granted(_, lease):
                self._granted(lease)
            case CancelBuild(_, recorded):
                self._cancel()
                recorded.set()
            case BuildTimedOut(_, started_at):
                self._time_is_up(started_at)
            case CacheHit(_, job_id):
                self._transitions.reload(job_id)
                self._follow_up()
            case TurnGiven():
                self._follow_up()
            case QueueTimedOut() | ImageFailed():
                self._gets_no_vm(message)
            case JobChanged(job_id, progress):
                self._job_changed(job_id, progress)
            case ChildStopped(urn, transient):
                self._job_actor_stopped(urn, transient=transient)
            case _:
                assert_never(message)
        self._handled(message)

    def on_error(self, message: object, error: Exception) -> None:
        """Fail the build with ``internal_error``: end the jobs that still run, then end the build."""
        builds, why = self._storage.builds, f"the service could not handle an event of this build: {error}"
        builds.record_error(self._build.id, BuildErrorCode.INTERNAL_ERROR, why)
        self._build = builds.get(self.build_id) or self._build
        for job_id in self._graph:
            self._transitions.reload(job_id)
        self._end_jobs(JobEvent.CANCEL, self._graph)
        self._roll_up()
        self._handled(message)

    def _handled(self, message: object) -> None:
        """Count a message from root, once even if it was retried, and wake who watches the build."""
        if isinstance(message, ForBuild):
            self._received += 1
        self._watchers.notify(self._build.uuid)
        self._report_if_idle()

    def _set_alarm(self) -> None:
        """Set the alarm of the build's time-out, which counts from its first job's start."""
        build = self._build
        if build.timeout_seconds is None or build.started_at is None or build.state.terminal:
            return
        left = max(0.0, build.timeout_seconds - seconds_since(build.started_at, self._clock))
        self._timer.tell_after(left, self._root, BuildTimedOut(build.id, build.started_at))

    def _granted(self, lease: Lease) -> None:
        """Start the actor of a job's next attempt.

        The grant may come before the news that the previous attempt is over.
        """
        job = None if lease.job_id is None else self._storage.jobs.get(lease.job_id)
        if job is None or job.state is not JobState.ASSIGNED or job.attempt != lease.attempt:
            return
        if job not in self._job_actors:
            self._transitions.note(job.id, Progress.of(job))
            self._roll_up()
            self._spawn(job, lease)

    def _gets_no_vm(self, message: QueueTimedOut | ImageFailed) -> None:
        """End a job that waited in vain."""
        if isinstance(message, QueueTimedOut):
            event, code = JobEvent.QUEUE_TIMEOUT, JobErrorCode.LEASE_FAILED
        else:
            event, code = JobEvent.IMAGE_NOT_FOUND, JobErrorCode.IMAGE_NOT_FOUND
        self._transitions.move(message.job_id, event, JobFailure(code, message.why))
        self._follow_up()

    def _attach(self, job_id: int) -> None:
        """Start an actor for a job that has, or had, a VM."""
        job = self._storage.jobs.get(job_id)
        lease = self._storage.leases.of_job(job_id)
        if job is not None and job.state.has_vm and lease is not None:
            self._spawn(job, lease)

    def _spawn(self, job: Job, lease: Lease) -> None:
        self._job_actors.start(self._graph.assignment(self._build, job, lease), self._end_event(job.id))

    def _end_event(self, job_id: int) -> JobEvent | None:
        """Return the event that is to end a job, in whatever state it is; None if it may go on."""
        if self._build.end_requested or self._build.state.terminal or job_id in self._failing_fast:
            return JobEvent.CANCEL
        return JobEvent.BUILD_TIMEOUT if self._timed_out else None

    def _cancel(self) -> None:
        build = self._storage.builds.get(self.build_id)
        if build is not None and build.cancel_requested and not build.state.terminal:
            self._build = build
            self._end_jobs(JobEvent.CANCEL, self._graph)
            self._follow_up()

    def _time_is_up(self, started_at: datetime | None) -> None:
        """Time out the build, unless the alarm is from before a retry."""
        if started_at in {None, self._build.started_at}:
            self._time_out()

    def _time_out(self) -> None:
        if not self._build.state.terminal:
            self._timed_out = True
            self._end_jobs(JobEvent.BUILD_TIMEOUT, self._graph)
            self._follow_up()

    def _adopt_timeout(self, job_id: int) -> None:
        """Time out the build if the VM of a job has ended its command for the build's time-out.

        A VM may notice that before this process does.
        """
        over = self._graph[job_id].progress.state in {JobState.TIMING_OUT, JobState.TIMED_OUT}
        if over and not self._timed_out:
            job = self._storage.jobs.get(job_id)
            if job is not None and timed_out_with_build(job):
                self._time_out()

    def _fail_fast(self) -> None:
        """After a failure, cancel the other jobs if the pipeline or its organization is set to fail fast."""
        to_cancel = self._graph.to_cancel() - self._failing_fast
        if to_cancel and self._storage.pipelines.fails_fast(self._build.pipeline_id):
            self._end_jobs(JobEvent.CANCEL, to_cancel)
            self._failing_fast |= to_cancel

    def _end_jobs(self, event: JobEvent, jobs: Container[int]) -> None:
        """End unfinished jobs: at once if they wait, through their actors if they have a VM."""
        for job_id in self._graph:
            if job_id in jobs and not self._graph[job_id].progress.state.terminal:
                self._transitions.move(job_id, event)
        self._job_actors.tell(event, jobs)

    def _job_changed(self, job_id: int, progress: Progress) -> None:
        known = self._graph[job_id].progress
        if progress.attempt < known.attempt or known.state.terminal:
            return
        self._transitions.note(job_id, progress)
        self._adopt_timeout(job_id)
        self._queued_again(job_id)
        self._follow_up()

    def _queued_again(self, job_id: int) -> None:
        """Wake the pool for a job that is scheduled again, or end the job if its build is ending."""
        if self._build.state.terminal:  # perhaps retried after this message was begun
            self._reopen()
        if self._graph[job_id].progress.state is not JobState.SCHEDULED:
            return
        if (event := self._end_event(job_id)) is not None:
            self._transitions.move(job_id, event)
        else:
            self._pool.post(Reschedule())

    def _follow_up(self) -> None:
        """Apply the effects of changed jobs: fail fast, schedule or skip dependents, roll up."""
        self._fail_fast()
        if self._transitions.schedule_ready():
            self._pool.post(Reschedule())
        self._roll_up()

    def _roll_up(self) -> None:
        """Update the build's state from its jobs' states."""
        storage, build = self._storage, self._build
        if build.state.terminal:
            return
        state = self._rolled_up(build)
        if state.terminal:  # a cancel may have been recorded whose message has not come yet
            build = storage.builds.get(build.id) or build
            state = self._rolled_up(build)
        started = build.started_at is not None
        moved = state is not build.state and storage.builds.move(build.id, build.state, state)
        if state is not build.state or not started:
            self._build = storage.builds.get(build.id) or build
        if moved:
            self.log.info("build %d of %s/%s is %s", build.number, build.organization_slug, build.pipeline_slug, state)
        if moved and state.terminal:
            self._metrics.built(self._build)
        if not started:
            self._set_alarm()
        if self._build.end_requested and not build.end_requested:  # by another process, just now
            self._end_jobs(JobEvent.CANCEL, self._graph)
            self._follow_up()

    def _rolled_up(self, build: Build) -> BuildState:
        return roll_up(
            self._graph.progress(), cancel_requested=build.cancel_requested, end_requested=build.end_requested
        )

    def _job_actor_stopped(self, urn: str, *, transient: bool) -> None:
        """Forget an actor whose job is done; restart one that died before that."""
        attempted = self._job_actors.attempt_of(urn)
        if attempted is None:
            return
        job_id, attempt = attempted
        self._transitions.reload(job_id)
        if self._graph[job_id].progress.attempt == attempt and self._transitions.has_vm(job_id):
            self._restart(job_id, transient=transient)
        if not self._transitions.has_vm(job_id):
            self._queued_again(job_id)
        self._follow_up()
        self._job_actors.forget(urn)

    def _restart(self, job_id: int, *, transient: bool) -> None:
        """Start another actor for a job whose actor died; fail the job after too many deaths."""
        node = self._graph[job_id]
        if transient:
            self._attach(job_id)
        elif self._job_actors.may_restart(job_id):
            self.log.error("the actor of job %s died and is started again", node.job.uuid)
            self._metrics.restarted("JobActor")
            self._attach(job_id)
        else:
            fail_job(self._storage, job_id, node.progress.state)
            self._transitions.reload(job_id)

    def _report_if_idle(self) -> None:
        if not self._job_actors:
            finished = self._build.state.terminal
            self._root.post(Idle(self.build_id, self.actor_urn, self._received, finished))
