"""The supervisor of one build: spawns its jobs in topological order, rolls their states up, cancels, times out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from actors.attempt import Assignment
from actors.job import JobActor
from actors.messages import BuildTimedOut, CancelBuild, ChildStopped, Demand, Granted, Idle, JobChanged, Stirred
from actors.runtime import Address, Runtime, post
from actors.states import JobEvent, Progress, blocks, next_state, roll_up, satisfies
from actors.supervision import Supervised
from storage import Build, BuildState, Edge, EdgeKind, Job, JobState, Lease

__all__ = ["BuildSupervisor"]

_JOB_RESTARTS = 3
_WITH_VM = frozenset({JobState.ASSIGNED, JobState.RUNNING, JobState.CANCELING, JobState.TIMING_OUT})


@dataclass(slots=True)
class _Node:
    """A job as its build sees it: its place in the graph and how far it is."""

    job: Job
    progress: Progress
    prerequisites: list[Edge] = field(default_factory=list)
    dependents: list[Edge] = field(default_factory=list)


class BuildSupervisor(Supervised):
    """Holds one build's plan while something of it runs.

    Everything it knows comes from the storage and goes there before anyone is told, so that a successor, in this
    process or in the next, continues where it stopped: starting is recovering.
    """

    def __init__(self, runtime: Runtime, build_id: int) -> None:
        super().__init__(runtime.timer, runtime.crew.root)
        self._runtime = runtime
        self._build_id = build_id
        self._received = 0
        self._actors: dict[int, Address] = {}
        self._restarts: Counter[int] = Counter()
        self._unsettled: list[int] = []
        self._timed_out = False
        self._build: Build
        self._nodes: dict[int, _Node] = {}

    def begin(self) -> None:
        """Read the build from the storage, attach to what runs, and do what an earlier supervisor left undone."""
        storage = self._runtime.storage
        build = storage.builds.get(self._build_id)
        if build is None:
            post(self._parent, Idle(self._build_id, self.actor_urn, self._received, finished=True))
            return
        self._build = build
        for job in storage.jobs.of_build(build.id):
            self._nodes[job.id] = _Node(job, Progress(job.state, job.soft_failed, job.attempt))
        for edge in storage.jobs.edges(build.id):
            self._nodes[edge.from_id].dependents.append(edge)
            self._nodes[edge.to_id].prerequisites.append(edge)
        self._set_alarm()
        for node in self._nodes.values():
            if node.progress.state in _WITH_VM:
                self._attach(node)
        if build.cancel_requested:
            self._stop_all(JobEvent.CANCEL)
        for job_id in self._nodes:
            self._advance(job_id)
        self._roll_up()
        self._say_if_idle()

    def teardown(self) -> None:
        """Stop the job actors; their VMs run on."""
        for address in self._actors.values():
            if address.is_alive():
                address.stop(block=True)

    def handle(self, message: object) -> None:
        """Follow one event of the build."""
        match message:
            case Granted(_, lease):
                self._granted(lease)
            case CancelBuild(_, recorded):
                self._cancel()
                recorded.set()
            case BuildTimedOut():
                self._time_out()
            case JobChanged(job_id, progress):
                self._job_changed(job_id, progress)
            case ChildStopped(urn):
                self._job_actor_stopped(urn)
        self._handled(message)

    def on_error(self, message: object, error: Exception) -> None:
        """Fail the build for an error of the service's own, and end what still runs of it."""
        self._stop_all(JobEvent.CANCEL)
        self._runtime.storage.builds.move(
            self._build.id,
            self._build.state,
            BuildState.FAILED,
            error_code="internal_error",
            error_message=f"the service could not handle an event of this build: {error}",
        )
        self._build = self._runtime.storage.builds.get(self._build_id) or self._build
        self._handled(message)

    def _handled(self, message: object) -> None:
        """Count what root has sent, once, however often the storage made it come again."""
        if isinstance(message, Granted | CancelBuild | BuildTimedOut):
            self._received += 1
        self._say_if_idle()

    def _set_alarm(self) -> None:
        """Have the build's time-out come, counted from its first job's start."""
        build, clock = self._build, self._runtime.clock
        if build.timeout_seconds is None or build.started_at is None or build.state.terminal:
            return
        left = build.started_at + timedelta(seconds=build.timeout_seconds) - clock.now()
        if self._parent is not None:
            self._runtime.timer.tell_after(max(0.0, left.total_seconds()), self._parent, BuildTimedOut(build.id))

    def _granted(self, lease: Lease) -> None:
        """Start the actor of a job's next attempt. A grant may overtake the news that the attempt before it is over."""
        job = None if lease.job_id is None else self._runtime.storage.jobs.get(lease.job_id)
        if job is None or job.state is not JobState.ASSIGNED or job.attempt != lease.attempt:
            return
        node = self._nodes[job.id]
        if job.id not in self._actors or node.progress.attempt < job.attempt:
            node.progress = Progress(job.state, job.soft_failed, job.attempt)
            self._spawn(node, job, lease)
            self._roll_up()

    def _attach(self, node: _Node) -> None:
        """Start an actor for a job that has, or had, a VM."""
        job = self._runtime.storage.jobs.get(node.job.id)
        lease = self._runtime.storage.leases.of_job(node.job.id)
        if job is not None and lease is not None:
            self._spawn(node, job, lease)

    def _spawn(self, node: _Node, job: Job, lease: Lease) -> None:
        parent = next((edge for edge in node.prerequisites if edge.kind is EdgeKind.BUILDS_IN), None)
        heirs = [edge for edge in node.dependents if edge.kind is EdgeKind.BUILDS_IN]
        assignment = Assignment(
            build=self._build,
            job=job,
            lease=lease,
            parent=self._nodes[parent.from_id].job if parent else None,
            heirs=bool(heirs),
            heirs_of_failure=any(edge.continue_on_failure for edge in heirs),
        )
        self._actors[job.id] = JobActor.start(self._runtime, self.actor_ref, assignment)
        if self._timed_out:
            self._actors[job.id].tell(JobEvent.BUILD_TIMEOUT)
        elif self._build.cancel_requested:
            self._actors[job.id].tell(JobEvent.CANCEL)

    def _cancel(self) -> None:
        build = self._runtime.storage.builds.get(self._build_id)
        if build is not None and not build.state.terminal:
            self._build = build
            self._stop_all(JobEvent.CANCEL)
            self._roll_up()

    def _time_out(self) -> None:
        if not self._build.state.terminal:
            self._timed_out = True
            self._stop_all(JobEvent.BUILD_TIMEOUT)
            self._roll_up()

    def _stop_all(self, event: JobEvent) -> None:
        """Bring every unfinished job to its end: at once where it waits, through its actor where it has a VM."""
        for job_id, node in self._nodes.items():
            if node.progress.state.terminal:
                continue
            if not self._move(job_id, event):
                self._reload(job_id)
        for address in self._actors.values():
            post(address, event)

    def _move(self, job_id: int, event: JobEvent) -> bool:
        """Change the state of a job that has no VM; False where the storage says that it is not in that state."""
        node = self._nodes[job_id]
        target = next_state(node.progress.state, event)
        if target is None or node.progress.state in _WITH_VM:
            return False
        code, why = (
            ("pipeline_timeout", f"the build's time-out of {self._build.timeout_seconds} s is over")
            if event is JobEvent.BUILD_TIMEOUT
            else (None, None)
        )
        moved = self._runtime.storage.jobs.move(job_id, node.progress.state, target, error_code=code, error_message=why)
        if moved:
            node.progress = Progress(target, node.progress.soft_failed, node.progress.attempt)
            post(self._runtime.crew.hub, Stirred(node.job.uuid))
        return moved

    def _reload(self, job_id: int) -> None:
        job = self._runtime.storage.jobs.get(job_id)
        if job is not None:
            self._nodes[job_id].progress = Progress(job.state, job.soft_failed, job.attempt)

    def _job_changed(self, job_id: int, progress: Progress) -> None:
        if progress.attempt < self._nodes[job_id].progress.attempt:
            return
        self._nodes[job_id].progress = progress
        if progress.state.terminal:
            for edge in self._nodes[job_id].dependents:
                self._advance(edge.to_id)
        self._roll_up()
        if progress.state is JobState.SCHEDULED:
            self._actors.pop(job_id, None)
            if self._build.cancel_requested or self._timed_out:
                self._stop_all(JobEvent.CANCEL if self._build.cancel_requested else JobEvent.BUILD_TIMEOUT)
                self._roll_up()
            post(self._runtime.crew.pool, Demand())

    def _advance(self, job_id: int) -> None:
        """Schedule a pending job whose prerequisites are all satisfied, or skip it and what waits for it.

        What the storage does not take now stays to be settled when the message comes again.
        """
        self._unsettled.append(job_id)
        while self._unsettled:
            node = self._nodes[self._unsettled[-1]]
            skipped = self._settle(node)
            self._unsettled.pop()
            if skipped:
                self._unsettled.extend(edge.to_id for edge in node.dependents)

    def _settle(self, node: _Node) -> bool:
        """Schedule or skip a job where its prerequisites say so; tell whether it was skipped."""
        if node.progress.state is not JobState.PENDING:
            return False
        before = [(self._nodes[edge.from_id].progress, edge.continue_on_failure) for edge in node.prerequisites]
        if any(blocks(progress, continue_on_failure=forgiving) for progress, forgiving in before):
            return self._move(node.job.id, JobEvent.BLOCKED)
        if all(satisfies(progress, continue_on_failure=forgiving) for progress, forgiving in before):
            self._move(node.job.id, JobEvent.READY)
            post(self._runtime.crew.pool, Demand())
        return False

    def _roll_up(self) -> None:
        """Bring the build's own state up to date with its jobs'."""
        storage, build = self._runtime.storage, self._build
        if build.state.terminal:
            return
        state = roll_up(
            (node.progress for node in self._nodes.values()),
            cancel_requested=build.cancel_requested,
        )
        started = build.started_at is not None
        if state is not build.state:
            storage.builds.move(build.id, build.state, state)
        if state is not build.state or not started:
            self._build = storage.builds.get(build.id) or build
        if not started:
            self._set_alarm()

    def _job_actor_stopped(self, urn: str) -> None:
        """Forget an actor whose job is done; put a new one in the place of one that died too early."""
        job_id = next((job_id for job_id, address in self._actors.items() if address.actor_urn == urn), None)
        if job_id is None:
            return
        self._reload(job_id)
        node = self._nodes[job_id]
        if node.progress.state in _WITH_VM and self._restarts[job_id] >= _JOB_RESTARTS:
            self._give_up_on(node)
        if node.progress.state in _WITH_VM:
            del self._actors[job_id]
            self._restarts[job_id] += 1
            self.log.error("the actor of job %s died and is started again", node.job.uuid)
            self._attach(node)
            return
        self._job_changed(job_id, node.progress)
        self._actors.pop(job_id, None)

    def _give_up_on(self, node: _Node) -> None:
        storage = self._runtime.storage
        lease = storage.leases.of_job(node.job.id)
        storage.jobs.finish(
            node.job.id,
            node.progress.state,
            JobState.FAILED,
            error_code="internal_error",
            exit_code=None,
            error_message=f"the service failed {_JOB_RESTARTS} times to look after this job; its log has the details",
            soft_failed=False,
            lease_id=lease.id if lease else None,
            billable=False,
        )
        self._reload(node.job.id)

    def _say_if_idle(self) -> None:
        if not self._actors:
            finished = self._build.state.terminal
            post(self._parent, Idle(self._build_id, self.actor_urn, self._received, finished))
