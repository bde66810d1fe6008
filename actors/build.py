"""The supervisor of one build: starts jobs in topological order, rolls up, cancels and times out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.about import be_about
from actors.cache import take_hit
from actors.cast import Cast
from actors.giving_up import give_up_job
from actors.graph import Graph
from actors.messages import (
    BuildTimedOut,
    CacheHit,
    CancelBuild,
    ChildStopped,
    Demand,
    ForBuild,
    Granted,
    Idle,
    ImageFailed,
    JobChanged,
    QueueTimedOut,
    Stirred,
)
from actors.outcome import Fault, build_timeout, forgiven, outcome_of, timed_out_with_build
from actors.runtime import Runtime, post
from actors.states import WITH_VM, JobEvent, Progress, next_state, roll_up
from actors.supervision import Supervised
from storage import Build, Job, JobState, Lease

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = ["BuildSupervisor"]


class BuildSupervisor(Supervised):
    """Holds one build's plan while any of its jobs runs.

    Its state comes from the storage and is written there before it is announced, so that a successor, in this process
    or in the next, continues where it stopped: starting is recovering.
    """

    def __init__(self, runtime: Runtime, build_id: int) -> None:
        super().__init__(runtime.timer, runtime.crew.root)
        self._runtime = runtime
        self._build_id = build_id
        self._received = 0
        self._cast = Cast(runtime, self.actor_ref)
        self._unsettled: dict[int, None] = {}
        self._doomed: set[int] = set()
        self._timed_out = False
        self._build: Build
        self._graph: Graph

    @property
    def doing(self) -> str:
        """The build, and the work under way."""
        return f"build {self._build_id}; {super().doing}"

    def begin(self) -> None:
        """Load the build, attach to its running jobs, and finish what an earlier supervisor left undone."""
        storage = self._runtime.storage
        build = storage.builds.get(self._build_id)
        if build is None:
            post(self._parent, Idle(self._build_id, self.actor_urn, self._received, finished=True))
            return
        be_about(build=build.external_id)
        self._build = build
        self._graph = Graph(storage.jobs.of_build(build.id), storage.jobs.edges(build.id))
        self._set_alarm()
        for job_id in filter(self._with_vm, self._graph):
            self._attach(job_id)
        if build.given_up:
            self._stop_jobs(JobEvent.CANCEL, self._graph)
        for job_id in self._graph:
            self._time_out_with(job_id)
        self._unsettled.update(dict.fromkeys(self._graph))
        self._follow_up()
        self._say_if_idle()

    def teardown(self) -> None:
        """Stop the job actors; their VMs run on."""
        self._cast.stop()

    def handle(self, message: object) -> None:
        """Handle one event of the build."""
        match message:
            case Granted(_, lease):
                self._granted(lease)
            case CancelBuild(_, recorded):
                self._cancel()
                recorded.set()
            case BuildTimedOut():
                self._time_out()
            case CacheHit(_, job_id):
                self._reload(job_id)
                self._follow_up()
            case QueueTimedOut(_, job_id, why):
                self._move(job_id, JobEvent.QUEUE_TIMEOUT, Fault("lease_failed", why))
                self._follow_up()
            case ImageFailed(_, job_id, why):
                self._move(job_id, JobEvent.IMAGE_NOT_FOUND, Fault("image_not_found", why))
                self._follow_up()
            case JobChanged(job_id, progress):
                self._job_changed(job_id, progress)
            case ChildStopped(urn, held_up):
                self._job_actor_stopped(urn, held_up=held_up)
        self._handled(message)

    def on_error(self, message: object, error: Exception) -> None:
        """Fail the build with ``internal_error``: stop the jobs that still run, then end the build."""
        builds, why = self._runtime.storage.builds, f"the service could not handle an event of this build: {error}"
        builds.blame(self._build.id, "internal_error", why)
        self._build = builds.get(self._build_id) or self._build
        for job_id in self._graph:
            self._reload(job_id)
        self._stop_jobs(JobEvent.CANCEL, self._graph)
        self._roll_up()
        self._handled(message)

    def _handled(self, message: object) -> None:
        """Count a message from root, once even if it was retried."""
        if isinstance(message, ForBuild):
            self._received += 1
        self._say_if_idle()

    def _set_alarm(self) -> None:
        """Set the alarm of the build's time-out, which counts from its first job's start."""
        build = self._build
        if build.timeout_seconds is None or build.started_at is None or build.state.terminal:
            return
        left = max(0.0, build.timeout_seconds - self._runtime.seconds_since(build.started_at))
        if self._parent is not None:
            self._runtime.timer.tell_after(left, self._parent, BuildTimedOut(build.id))

    def _granted(self, lease: Lease) -> None:
        """Start the actor of a job's next attempt.

        The grant may come before the news that the previous attempt is over.
        """
        job = None if lease.job_id is None else self._runtime.storage.jobs.get(lease.job_id)
        if job is None or job.state is not JobState.ASSIGNED or job.attempt != lease.attempt:
            return
        if not self._cast.plays(job):
            self._note(job.id, Progress.of(job))
            self._roll_up()
            self._spawn(job, lease)

    def _attach(self, job_id: int) -> None:
        """Start an actor for a job that has, or had, a VM."""
        job = self._runtime.storage.jobs.get(job_id)
        lease = self._runtime.storage.leases.of_job(job_id)
        if job is not None and job.state in WITH_VM and lease is not None:
            self._spawn(job, lease)

    def _spawn(self, job: Job, lease: Lease) -> None:
        self._cast.start(self._graph.assignment(self._build, job, lease), self._end_of(job.id))

    def _end_of(self, job_id: int) -> JobEvent | None:
        """Return the event that is to end a job, in whatever state it is; None if it may go on."""
        if self._build.given_up or self._build.state.terminal or job_id in self._doomed:
            return JobEvent.CANCEL
        return JobEvent.BUILD_TIMEOUT if self._timed_out else None

    def _cancel(self) -> None:
        build = self._runtime.storage.builds.get(self._build_id)
        if build is not None and not build.state.terminal:
            self._build = build
            self._stop_jobs(JobEvent.CANCEL, self._graph)
            self._follow_up()

    def _time_out(self) -> None:
        if not self._build.state.terminal:
            self._timed_out = True
            self._stop_jobs(JobEvent.BUILD_TIMEOUT, self._graph)
            self._follow_up()

    def _time_out_with(self, job_id: int) -> None:
        """Time out the build if the VM of a job has ended its command for the build's time-out.

        A VM may notice that before this process does.
        """
        over = self._graph[job_id].progress.state in {JobState.TIMING_OUT, JobState.TIMED_OUT}
        if over and not self._timed_out:
            job = self._runtime.storage.jobs.get(job_id)
            if job is not None and timed_out_with_build(job):
                self._time_out()

    def _fail_fast(self) -> None:
        """After a failure, cancel the other jobs if the pipeline or its organization is set to fail fast."""
        doomed = self._graph.doomed() - self._doomed
        if doomed and self._runtime.storage.pipelines.fails_fast(self._build.pipeline_id):
            self._stop_jobs(JobEvent.CANCEL, doomed)
            self._doomed |= doomed

    def _stop_jobs(self, event: JobEvent, jobs: Container[int]) -> None:
        """End unfinished jobs: at once if they wait, through their actors if they have a VM."""
        for job_id in self._graph:
            if job_id in jobs and not self._graph[job_id].progress.state.terminal:
                self._move(job_id, event)
        self._cast.tell(event, jobs)

    def _move(self, job_id: int, event: JobEvent, fault: Fault | None = None) -> None:
        """Apply an event to a job without a VM; reload the job if its state in the storage differs."""
        node = self._graph[job_id]
        target = next_state(node.progress.state, event)
        if target is None or node.progress.state in WITH_VM:
            return
        fault = build_timeout(self._build) if event is JobEvent.BUILD_TIMEOUT else fault
        soft = event in {JobEvent.QUEUE_TIMEOUT, JobEvent.IMAGE_NOT_FOUND} and forgiven(node.job)
        outcome = outcome_of(fault, soft_failed=soft)
        if not self._runtime.storage.jobs.move(job_id, node.progress.state, target, outcome):
            self._runtime.drops.note(node.job.uuid, node.progress.state, event)
            self._reload(job_id)
            return
        self._note(job_id, Progress(target, soft, node.progress.attempt))
        post(self._runtime.crew.hub, Stirred(node.job.uuid))

    def _reload(self, job_id: int) -> None:
        job = self._runtime.storage.jobs.get(job_id)
        if job is not None:
            self._note(job_id, Progress.of(job))

    def _note(self, job_id: int, progress: Progress) -> None:
        """Note a job's progress from the storage; if it is over, mark its dependents to be settled."""
        node = self._graph[job_id]
        node.progress = progress
        if progress.state.terminal:
            self._unsettled.update(dict.fromkeys(edge.to_id for edge in node.dependents))

    def _job_changed(self, job_id: int, progress: Progress) -> None:
        known = self._graph[job_id].progress
        if progress.attempt < known.attempt or known.state.terminal:
            return
        self._note(job_id, progress)
        self._time_out_with(job_id)
        self._queued_again(job_id)
        self._follow_up()

    def _queued_again(self, job_id: int) -> None:
        """Wake the pool for a job that is scheduled again, or end the job if its build is ending."""
        if self._graph[job_id].progress.state is not JobState.SCHEDULED:
            return
        if (event := self._end_of(job_id)) is not None:
            self._move(job_id, event)
        else:
            post(self._runtime.crew.pool, Demand())

    def _follow_up(self) -> None:
        """Draw the conclusions from changed jobs: fail fast, schedule or skip dependents, roll up.

        If the storage fails, the unsettled jobs are settled when the message is handled again.
        """
        self._fail_fast()
        waits = False
        while self._unsettled:
            job_id = next(iter(self._unsettled))
            if (event := self._graph.prospect(job_id)) is not None:
                self._move(job_id, event)
            waits |= self._waits(job_id)
            del self._unsettled[job_id]
        if waits:
            post(self._runtime.crew.pool, Demand())
        self._roll_up()

    def _waits(self, job_id: int) -> bool:
        """Tell whether a job needs a VM now. A scheduled job with a cache hit passes without one."""
        node = self._graph[job_id]
        if node.progress.state is not JobState.SCHEDULED:
            return False
        hit = node.job.cache_key is not None and take_hit(self._runtime, job_id)
        if hit:
            self._reload(job_id)
        return not hit

    def _roll_up(self) -> None:
        """Update the build's state from its jobs' states."""
        storage, build = self._runtime.storage, self._build
        if build.state.terminal:
            return
        state = roll_up(self._graph.progress(), cancel_requested=build.cancel_requested, given_up=build.given_up)
        started = build.started_at is not None
        moved = state is not build.state and storage.builds.move(build.id, build.state, state)
        if state is not build.state or not started:
            self._build = storage.builds.get(build.id) or build
        if moved:
            self.log.info("build %d of %s/%s is %s", build.number, build.organization_slug, build.pipeline_slug, state)
        if moved and state.terminal:
            self._runtime.observations.built(self._build)
        if not started:
            self._set_alarm()

    def _job_actor_stopped(self, urn: str, *, held_up: bool) -> None:
        """Forget an actor whose job is done; restart one that died before that."""
        attempted = self._cast.attempt_of(urn)
        if attempted is None:
            return
        job_id, attempt = attempted
        self._reload(job_id)
        if self._graph[job_id].progress.attempt == attempt and self._with_vm(job_id):
            self._restart(job_id, held_up=held_up)
        if not self._with_vm(job_id):
            self._queued_again(job_id)
        self._follow_up()
        self._cast.forget(urn)

    def _with_vm(self, job_id: int) -> bool:
        return self._graph[job_id].progress.state in WITH_VM

    def _restart(self, job_id: int, *, held_up: bool) -> None:
        """Start another actor for a job whose actor died; give up the job after too many deaths."""
        node = self._graph[job_id]
        if held_up:
            self._attach(job_id)
        elif self._cast.may_restart(job_id):
            self.log.error("the actor of job %s died and is started again", node.job.uuid)
            self._runtime.observations.restarted("JobActor")
            self._attach(job_id)
        else:
            give_up_job(self._runtime, job_id, node.progress.state)
            self._reload(job_id)

    def _say_if_idle(self) -> None:
        if not self._cast:
            finished = self._build.state.terminal
            post(self._parent, Idle(self._build_id, self.actor_urn, self._received, finished))
