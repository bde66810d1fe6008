"""Early ends: of a build's jobs for a cancel, a time-out or fail-fast, and after internal errors."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from actors.builds.outcome import timed_out_with_build
from actors.builds.states import JobEvent, next_state
from storage import BuildFinished, BuildState, JobErrorCode, JobState, Outcome

if TYPE_CHECKING:
    from collections.abc import Container

    from actors.builds.graph import Graph
    from actors.builds.job_actors import JobActors
    from actors.builds.job_transitions import JobTransitions
    from storage import Build, Storage

_SERVICE = "ci-daemon"
"""The service itself, in the audit."""


class EarlyEnd:
    """Ends jobs that have not ended by themselves.

    Those that wait end at once, those that have a VM through their actors. What ended and why is remembered, because
    the actor of a job may start, or start again, after that. For the supervisor's thread only.
    """

    def __init__(self, graph: Graph, transitions: JobTransitions, job_actors: JobActors, storage: Storage) -> None:
        self._graph = graph
        self._transitions = transitions
        self._job_actors = job_actors
        self._storage = storage
        self._failing_fast: set[int] = set()
        self._timed_out = False

    def event(self, build: Build, job_id: int) -> JobEvent | None:
        """Return the event that is to end a job, in whatever state it is; None if it may go on."""
        if build.end_requested or build.state.terminal or job_id in self._failing_fast:
            return JobEvent.CANCEL
        return JobEvent.BUILD_TIMEOUT if self._timed_out else None

    @property
    def timed_out(self) -> bool:
        """True if the build's time is up, and every job was told."""
        return self._timed_out

    def cancel(self) -> None:
        """End every job, because the build was canceled or the service failed it."""
        self._end(JobEvent.CANCEL, self._graph)

    def time_out(self) -> None:
        """End every job, because the build's time is up."""
        self._timed_out = True
        self._end(JobEvent.BUILD_TIMEOUT, self._graph)

    def fail_fast(self, build: Build) -> None:
        """After a failure, cancel the other jobs if the pipeline or its organization is set to fail fast."""
        jobs = self._graph.to_cancel() - self._failing_fast
        if jobs and self._storage.pipelines.fails_fast(build.pipeline_id):
            self._end(JobEvent.CANCEL, jobs)
            self._failing_fast |= jobs

    def end_joined(self, build: Build) -> None:
        """End the jobs that have joined a build which is being ended as a whole."""
        for job_id in self._transitions.joined():
            if (event := self.event(build, job_id)) is not None:
                self._transitions.move(job_id, event)

    def due_to(self, job_id: int) -> bool:
        """Tell whether a job's VM has ended the command for the build's time-out before this process did."""
        over = self._graph[job_id].progress.state in {JobState.TIMING_OUT, JobState.TIMED_OUT}
        if not over or self._timed_out:
            return False
        job = self._storage.jobs.get(job_id)
        return job is not None and job.taken_from is None and timed_out_with_build(job)

    def _end(self, event: JobEvent, jobs: Container[int]) -> None:
        for job_id in self._graph:
            if job_id in jobs and not self._graph[job_id].progress.state.terminal:
                self._transitions.move(job_id, event)
        self._job_actors.tell(event, jobs)


def fail_build(storage: Storage, build_id: int) -> None:
    """Fail a build whose supervisors keep dying; end its jobs, unbilled. The reaper takes their VMs."""
    why = "the service failed repeatedly to run this build; the service's log has the details"
    with suppress(BuildFinished), storage.transaction():
        storage.force_finish.end(build_id, BuildState.FAILED, actor=_SERVICE, note=why, billable=False)
        build = storage.builds.get(build_id)
        if build is not None:
            organization = build.organization_slug
            storage.audit.write(_SERVICE, "forceFinishBuild", build.name, f"failed: {why}", organization=organization)


def fail_job(storage: Storage, job_id: int, state: JobState) -> None:
    """End a job whose actors keep dying; the attempt is not billed. The reaper takes its VM."""
    target = next_state(state, JobEvent.DEAD if state.ending else JobEvent.FAILED)
    if target is None:
        return
    why = "the service failed repeatedly to run this job; the service's log has the details"
    lease = storage.leases.of_job(job_id)
    outcome = (
        Outcome(error_code=JobErrorCode.INTERNAL_ERROR, error_message=why) if target is JobState.FAILED else Outcome()
    )
    storage.jobs.finish(job_id, state, target, outcome, lease_id=lease.id if lease else None, billable=False)
