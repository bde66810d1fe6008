"""Transitions of jobs without a VM and of their dependants, and the roll-up of their build."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.builds.outcome import JobFailure, build_timeout, outcome_of, soft_fails
from actors.builds.states import JobEvent, Progress, next_state, roll_up
from actors.messages import ImageFailed, QueueTimedOut
from storage import JobErrorCode, JobState

if TYPE_CHECKING:
    from actors.builds.attempt.disk_cache import DiskCache
    from actors.builds.gates import GateKeeper
    from actors.builds.graph import Graph
    from actors.log_watchers import LogWatchers
    from actors.metrics import EngineMetrics
    from storage import Build, BuildState, Storage


_log = logging.getLogger(__name__)


def moved_with_jobs(build: Build, graph: Graph, storage: Storage, metrics: EngineMetrics) -> Build | None:
    """Move an unfinished build to the state that follows from its jobs; return it as it is then.

    None if another process has changed the build or its jobs: by force, or by a retry. Then both are to be read anew.
    A build that ends is returned as it ended, although it may be retried at once: ``graph`` is of its end.
    """
    state = _rolled_up(build, graph)
    if state.terminal:  # a cancel may have been recorded whose message has not come yet
        build = storage.builds.get(build.id) or build
        state = _rolled_up(build, graph)
    if state is build.state:
        return build if build.started_at is not None else storage.builds.get(build.id)
    if not state.terminal:
        if not storage.builds.move(build.id, build.state, state):
            return None
        moved = storage.builds.get(build.id)
    else:
        moved = storage.builds.conclude(build.id, build.state, state)
        if moved is not None:
            metrics.built(moved)
    if moved is not None:
        _log.info("build %d of %s/%s is %s", build.number, build.organization_slug, build.pipeline_slug, state)
    return moved


def _rolled_up(build: Build, graph: Graph) -> BuildState:
    return roll_up(graph.progress(), cancel_requested=build.cancel_requested, end_requested=build.end_requested)


class JobTransitions:
    """Moves jobs to their next state: in the storage first, then in the graph.

    It remembers the jobs to check after a prerequisite ended. If the storage fails, the next `schedule_ready` goes on
    with them. For the supervisor's thread only.
    """

    def __init__(
        self,
        build: Build,
        graph: Graph,
        *,
        storage: Storage,
        cache: DiskCache,
        watchers: LogWatchers,
        metrics: EngineMetrics,
        gates: GateKeeper,
    ) -> None:
        self._build = build
        self._graph = graph
        self._storage = storage
        self._cache = cache
        self._watchers = watchers
        self._metrics = metrics
        self._gates = gates
        self._to_check = dict.fromkeys(graph)
        self._joined: list[int] = []

    def has_vm(self, job_id: int) -> bool:
        """Tell whether a job is in a state in which it has a VM."""
        return self._graph[job_id].progress.state.has_vm

    def move(self, job_id: int, event: JobEvent, failure: JobFailure | None = None) -> None:
        """Apply an event to a job without a VM; reload the job if its state in the storage differs."""
        node = self._graph[job_id]
        target = next_state(node.progress.state, event)
        if target is None or node.progress.state.has_vm:
            return
        failure = self._own_failure(job_id, event) or failure
        soft = event in {JobEvent.QUEUE_TIMEOUT, JobEvent.IMAGE_NOT_FOUND} and soft_fails(node.job)
        outcome = outcome_of(failure, soft_failed=soft)
        if not self._storage.jobs.move(job_id, node.progress.state, target, outcome):
            self._metrics.dropped(node.job.uuid, node.progress.state, event)
            self.reload(job_id)
            return
        self.note(job_id, Progress(target, soft, node.progress.attempt, event is JobEvent.UNMET))
        self._watchers.notify(node.job.uuid)

    def _own_failure(self, job_id: int, event: JobEvent) -> JobFailure | None:
        """Return the code and message of an event that says itself why the job ends."""
        match event:
            case JobEvent.BUILD_TIMEOUT:
                return build_timeout(self._build)
            case JobEvent.UNMET:
                return JobFailure(JobErrorCode.NOTHING_FAILED, self._graph.why_unmet(job_id))
            case _:
                return None

    def end_without_vm(self, message: QueueTimedOut | ImageFailed) -> None:
        """End a job that waited in vain."""
        if isinstance(message, QueueTimedOut):
            event, code = JobEvent.QUEUE_TIMEOUT, JobErrorCode.LEASE_FAILED
        else:
            event, code = JobEvent.IMAGE_NOT_FOUND, JobErrorCode.IMAGE_NOT_FOUND
        self.move(message.job_id, event, JobFailure(code, message.why))

    def reload(self, job_id: int) -> None:
        """Note a job's progress as it is in the storage."""
        job = self._storage.jobs.get(job_id)
        if job is not None:
            self.note(job_id, Progress.of(job))

    def note(self, job_id: int, progress: Progress) -> None:
        """Note a job's progress from the storage; if it is over, mark its dependents to be checked.

        The jobs that it has generated join first: with its end noted, and not they, the build might count as over.
        """
        node = self._graph[job_id]
        if node.job.generates is not None and progress.state is JobState.PASSED:
            self._take_in_generated()
        node.progress = progress
        if progress.state.terminal:
            self._to_check.update(dict.fromkeys(edge.to_id for edge in node.dependents))

    def look_at_gates(self) -> None:
        """Mark the jobs with a gate to be checked."""
        at_gates = (job_id for job_id in self._graph if self._graph[job_id].job.environment is not None)
        self._to_check.update(dict.fromkeys(at_gates))

    def _take_in_generated(self) -> None:
        jobs, build_id = self._storage.jobs, self._build.id
        joined = self._graph.add(jobs.of_build(build_id), jobs.edges(build_id))
        self._to_check.update(dict.fromkeys(joined))
        self._joined += joined

    def joined(self) -> list[int]:
        """Return the jobs that have joined the build since the last call."""
        joined, self._joined = self._joined, []
        return joined

    def schedule_ready(self) -> bool:
        """Schedule or skip the jobs whose prerequisites have ended; return whether one of them needs a VM now.

        Nothing is scheduled while the build waits for an approval or its turn.
        """
        if self._build.waits_for is not None:
            return False
        waits = False
        while self._to_check:
            job_id = next(iter(self._to_check))
            event, failure = self._graph.readiness(job_id), None
            if event is JobEvent.READY:
                event, failure = self._gates.event(self._graph[job_id].job)
            if event is not None:
                self.move(job_id, event, failure)
            waits |= self._needs_vm(job_id)
            del self._to_check[job_id]
        return waits

    def _needs_vm(self, job_id: int) -> bool:
        """Tell whether a job needs a VM now. A scheduled job with a cache hit passes without one."""
        node = self._graph[job_id]
        if node.progress.state is not JobState.SCHEDULED:
            return False
        hit = node.job.cache_key is not None and self._cache.take_hit(job_id)
        if hit:
            self.reload(job_id)
        return not hit
