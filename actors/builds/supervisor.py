"""The supervisor of one build: starts jobs in topological order, rolls up, cancels and times out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Never, assert_never

from actors.builds.early_end import EarlyEnd, fail_job
from actors.builds.gates import GateKeeper, GateMails, seconds_run
from actors.builds.graph import Graph
from actors.builds.job import JobActor
from actors.builds.job_actors import JobActors
from actors.builds.job_transitions import JobTransitions, moved_with_jobs
from actors.builds.states import Progress
from actors.messages import (
    BuildMessage,
    BuildTimedOut,
    CacheHit,
    CancelBuild,
    ChildStopped,
    ForBuild,
    GateDue,
    Granted,
    Idle,
    ImageFailed,
    JobChanged,
    QueueTimedOut,
    Reschedule,
    TurnGiven,
)
from actors.supervision import Supervised, set_log_context
from storage import Build, BuildErrorCode, Job, JobState, Lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.disk_cache import DiskCache
    from actors.builds.job_messages import JobMessage
    from actors.parts import Parts
    from actors.timer import Alarm


class BuildSupervisor(Supervised[BuildMessage, Never]):
    """Holds one build's plan while any of its jobs runs.

    Its state comes from the storage and is written there before it is announced, so that a successor, in this process
    or in the next, continues where it stopped: starting is recovering.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        build_id: int,
        job_actor: Callable[[Address[BuildMessage], Assignment], Address[JobMessage]],
        cache: DiskCache,
    ) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry, parts.storage.let_go)
        self.build_id = build_id
        self._root = parts.addresses.root
        self._pool = parts.addresses.pool
        self._storage = parts.storage
        self._clock = parts.clock
        self._cache = cache
        self._watchers = parts.watchers
        self._metrics = parts.metrics
        self._gate_mails = GateMails(parts.storage, parts.live_settings)
        self._received = 0
        self._job_actors = JobActors(partial(job_actor, self.address))
        self._build: Build
        self._graph: Graph
        self._transitions: JobTransitions
        self._early_end: EarlyEnd
        self._alarm: Alarm | None = None

    @property
    def doing(self) -> str:
        """The build, and the work under way."""
        return f"build {self.build_id}; {super().doing}"

    def begin(self) -> None:
        """Load the build, attach to its running jobs, and finish what an earlier supervisor left undone."""
        build = self._storage.builds.get(self.build_id)
        if build is None:
            self._root.post(Idle(self.build_id, self.actor_urn, self._received, finished=True))
            return
        set_log_context(build=build.external_id)
        self._load(build)
        for job_id in filter(self._transitions.has_vm, self._graph):
            self._attach(job_id)
        if build.end_requested:
            self._early_end.cancel()
        for job_id in self._graph:
            self._adopt_timeout(job_id)
        self._follow_up()
        self._report_if_idle()

    def _load(self, build: Build) -> None:
        """Take the build and its jobs as they are in the storage."""
        self._cancel_alarm()
        storage = self._storage
        self._build = build
        self._graph = Graph(storage.jobs.of_build(build.id), storage.jobs.edges(build.id))
        self._transitions = JobTransitions(
            build,
            self._graph,
            storage=storage,
            cache=self._cache,
            watchers=self._watchers,
            metrics=self._metrics,
            gates=GateKeeper(build, storage, self._gate_mails, self._await_answer),
        )
        self._early_end = EarlyEnd(self._graph, self._transitions, self._job_actors, storage)

    def _reopen(self) -> None:
        """Load the build again if it was retried since its end, or waits no longer."""
        build = self._storage.builds.get(self.build_id)
        if build is not None and not build.state.terminal:
            self._load(build)

    def _catch_up(self) -> None:
        """Go on with the build as another process left it: ended by force, or retried after that."""
        build = self._storage.builds.get(self.build_id) or self._build
        self._load(build)
        if build.state.terminal:
            return
        if build.end_requested:
            self._early_end.cancel()
        self._follow_up()

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
                self._alarm_rang(started_at)
            case CacheHit(_, job_id):
                self._transitions.reload(job_id)
                self._follow_up()
            case TurnGiven() | GateDue():
                self._transitions.look_at_gates()
                self._follow_up()
            case QueueTimedOut() | ImageFailed():
                self._transitions.end_without_vm(message)
                self._follow_up()
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
        self._early_end.cancel()
        self._roll_up()
        self._handled(message)

    def _handled(self, message: object) -> None:
        """Count a message from root, once even if it was retried, and wake who watches the build."""
        if isinstance(message, ForBuild):
            self._received += 1
        self._watchers.notify(self._build.uuid)
        self._report_if_idle()

    def _keep_time(self) -> None:
        """Set the alarm of the build's time-out, or cancel it: its time runs only while a job may use it."""
        build = self._build
        if (
            build.timeout_seconds is None
            or build.started_at is None
            or self._early_end.timed_out
            or not self._is_busy()
        ):
            self._cancel_alarm()
        elif self._alarm is None:
            left = max(0.0, build.timeout_seconds - seconds_run(self._storage, build))
            self._alarm = self._timer.tell_after(left, self._root, BuildTimedOut(build.id, build.started_at))

    def _is_busy(self) -> bool:
        """Tell whether a job is more than pending: else the build is over, or waits at gates alone."""
        states = (progress.state for progress in self._graph.progress())
        return any(state is not JobState.PENDING and not state.terminal for state in states)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _alarm_rang(self, started_at: datetime | None) -> None:
        """Time out the build, unless the alarm is older than a retry or a wait at gates."""
        self._cancel_alarm()
        build = self._build
        over = started_at == build.started_at and seconds_run(self._storage, build) >= (build.timeout_seconds or 0)
        if started_at is None or over:
            self._time_out()
        self._keep_time()

    def _await_answer(self, seconds: float) -> None:
        """Set the alarm of a gate that waits for an answer."""
        self._timer.tell_after(seconds, self._root, GateDue(self.build_id))

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

    def _attach(self, job_id: int) -> None:
        """Start an actor for a job that has, or had, a VM."""
        job = self._storage.jobs.get(job_id)
        lease = self._storage.leases.of_job(job_id)
        if job is not None and job.state.has_vm and lease is not None:
            self._spawn(job, lease)

    def _spawn(self, job: Job, lease: Lease) -> None:
        assignment = self._graph.assignment(self._build, job, lease)
        self._job_actors.start(assignment, self._early_end.event(self._build, job.id))

    def _cancel(self) -> None:
        build = self._storage.builds.get(self.build_id)
        if build is not None and build.cancel_requested and not build.state.terminal:
            self._build = build
            self._early_end.cancel()
            self._follow_up()

    def _time_out(self) -> None:
        if not self._build.state.terminal:
            self._early_end.time_out()
            self._follow_up()

    def _adopt_timeout(self, job_id: int) -> None:
        """Time out the build if the VM of a job has ended its command for that."""
        if self._early_end.due_to(job_id):
            self._time_out()

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
        if (event := self._early_end.event(self._build, job_id)) is not None:
            self._transitions.move(job_id, event)
        else:
            self._pool.post(Reschedule())

    def _follow_up(self) -> None:
        """Apply the effects of changed jobs: fail fast, schedule or skip dependents, roll up."""
        self._early_end.end_joined(self._build)
        self._early_end.fail_fast(self._build)
        if self._transitions.schedule_ready():
            self._pool.post(Reschedule())
        self._roll_up()
        self._keep_time()

    def _roll_up(self) -> None:
        """Update the build's state from its jobs' states."""
        before = self._build
        if before.state.terminal:
            return
        moved = moved_with_jobs(before, self._graph, self._storage, self._metrics)
        if moved is None:
            self._catch_up()
            return
        self._build = moved
        if self._build.end_requested and not (before.end_requested or self._build.state.terminal):
            # by another process, just now
            self._early_end.cancel()
            self._follow_up()

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
            self._metrics.restarted(JobActor)
            self._attach(job_id)
        else:
            fail_job(self._storage, job_id, node.progress.state)
            self._transitions.reload(job_id)

    def _report_if_idle(self) -> None:
        if not self._job_actors:
            finished = self._build.state.terminal
            self._root.post(Idle(self.build_id, self.actor_urn, self._received, finished))
