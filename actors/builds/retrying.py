"""Retries of finished builds: which jobs run again (wire-decisions.md, "Rebuilds and retries")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.builds.graph import Graph
from actors.builds.states import JobEvent, Progress, next_state, roll_up
from storage import EdgeKind, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage import Build, Edge, Job, Storage


def retry(storage: Storage, build: Build) -> bool:
    """Let what did not pass in a finished build run again; False and no change if all of it passed.

    Raises BuildNotFinished and BuildBusy.
    """
    jobs, edges = storage.jobs.of_build(build.id), storage.jobs.edges(build.id)
    again = to_run_again(jobs, edges)
    if not again:
        return False
    graph = Graph(jobs, edges)
    for job_id in again:
        node = graph[job_id]
        state = next_state(node.progress.state, JobEvent.RERUN)
        if state is not None:
            node.progress = Progress(state, attempt=node.progress.attempt)
    for job_id in again:
        node = graph[job_id]
        event = graph.readiness(job_id)
        state = None if event is None else next_state(node.progress.state, event)
        if state is not None:
            node.progress = Progress(state, attempt=node.progress.attempt)
    state_of_build = roll_up(graph.progress(), cancel_requested=False)
    storage.retries.begin(build, state_of_build, jobs, {job_id: graph[job_id].progress.state for job_id in again})
    return True


def to_run_again(jobs: Sequence[Job], edges: Iterable[Edge]) -> set[int]:
    """Return the jobs that did not pass, and those in whose disks they build.

    A finished build's disks are gone. A soft failure stays, because the build went on with it.
    """
    parents = {edge.to_id: edge.from_id for edge in edges if edge.kind is EdgeKind.BUILDS_IN}
    ahead = [job.id for job in jobs if job.state is not JobState.PASSED and not job.soft_failed]
    again: set[int] = set()
    while ahead:
        job_id = ahead.pop()
        if job_id not in again:
            again.add(job_id)
            ahead += [parents[job_id]] if job_id in parents else []
    return again
