"""Builds that run again, or wait to: rebuilds and retries (wire-decisions.md, "Rebuilds and retries")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.builds.graph import Graph
from actors.builds.states import JobEvent, Progress, next_state, roll_up
from storage import BuildState, EdgeKind, JobErrorCode, JobState, NewBuild, SourceGone, VerifiedEvent, WaitsFor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage import Build, Edge, Job, RequestKey, Storage, Turn


def repetition(
    storage: Storage, build: Build, source: str, key: RequestKey | None = None
) -> tuple[NewBuild, str | None]:
    """Return a build to create that repeats another one, and the URL of a source not fetched yet.

    The VMs of its failed jobs are not held, whatever the first build asked for. Of an untrusted build it is untrusted
    too, and it needs an approval unless that build has one. It is of the same verified ref. Raises SourceGone.
    """
    if build.has_source and build.source_expired_at is not None:
        raise SourceGone(f"the source of build {build.number} is no longer kept; create a new build")
    render = storage.renders.get(build.id)
    url = None if build.has_source or render is None else render.source_url  # fetched again, it may be another source
    new = NewBuild(
        branch=build.branch or "",
        commit=build.commit or "",
        message=build.message,
        source=source,
        env=storage.builds.env(build.id),
        pipeline_ir=storage.builds.pipeline_ir(build.id),
        source_sha256=build.source_sha256,
        key=key,
        rebuild_of=build.number,
        source_of=build.uuid if build.has_source else None,
        untrusted_origin=build.untrusted_origin,
        from_fork=build.from_fork,
        approval_reason=None if build.approved_by else build.approval_reason,
        inputs=build.inputs,
        changed_files=storage.builds.changed_files(build.id),
        ref=None if render is None else render.ref,
        verified_event=VerifiedEvent.API if url else build.verified_event,
        verified_ref=None if url else build.verified_ref,
        base_commit=build.base_commit,
        merge_commit=build.merge_commit,
        upstream_id=storage.pipeline_triggers.upstream_id(build.id),
    )
    return new, url


def retry(storage: Storage, build: Build, only: Job | None = None, budget_id: int | None = None) -> bool:
    """Let what did not pass in a finished build run again; False and no change if nothing can.

    With ``only`` that is this job, and what was skipped or canceled after it. The budget of an API key pays, if given.
    Raises BuildNotFinished and BuildBusy.
    """
    jobs, edges = storage.jobs.of_build(build.id), storage.jobs.edges(build.id)
    again = to_run_again(jobs, edges, None if only is None else only.id)
    if not again:
        return False
    graph = Graph(jobs, edges)
    for job_id in again:
        node = graph[job_id]
        state = next_state(node.progress.state, JobEvent.RERUN)
        if state is not None:
            node.progress = Progress(state, attempt=node.progress.attempt)
    asks = False
    for job_id in sorted(again):
        node = graph[job_id]
        event = graph.readiness(job_id)
        if event is JobEvent.READY and node.job.environment is not None:  # its gate is asked anew
            asks = True
            continue
        state = None if event in {None, JobEvent.UNMET} else next_state(node.progress.state, event)
        if state is not None:
            node.progress = Progress(state, attempt=node.progress.attempt)
    state_of_build = roll_up(graph.progress(), cancel_requested=False)
    states = {job_id: graph[job_id].progress.state for job_id in again}
    open_again = {job_id: state for job_id, state in states.items() if not state.terminal}
    if not asks and all(state is JobState.PENDING for state in open_again.values()):
        return False
    storage.retries.begin(build, state_of_build, jobs, open_again, budget_id)
    return True


def to_run_again(jobs: Sequence[Job], edges: Iterable[Edge], only: int | None = None) -> set[int]:
    """Return the jobs that did not pass, and those whose disks or workspaces they take.

    With ``only`` that is this one job of them, and what was skipped or canceled after it.

    A finished build's disks and workspaces are gone. What was taken over from an earlier build stays, and so does a
    soft failure, because the build went on with it, and a job that its own condition has skipped. One that runs only
    after a failure is decided anew where something runs again that it needs.
    """
    parents: dict[int, list[int]] = {}
    dependents: dict[int, list[int]] = {}
    for edge in edges:
        dependents.setdefault(edge.from_id, []).append(edge.to_id)
        if edge.kind is EdgeKind.BUILDS_IN or edge.workspace:
            parents.setdefault(edge.to_id, []).append(edge.from_id)
    taken = {job.id for job in jobs if job.taken_from is not None}
    unpassed = [job for job in jobs if job.state is not JobState.PASSED and not job.soft_failed and job.id not in taken]
    undecided = {job.id for job in unpassed if job.only_after_failure or job.error_code == JobErrorCode.NOTHING_FAILED}
    ahead = [job.id for job in unpassed if not job.skipped_by_condition and job.id not in undecided]
    if only is not None:
        ended_early = {job.id for job in unpassed if job.state in {JobState.SKIPPED, JobState.CANCELED}}
        undecided |= ended_early.intersection(ahead)
        ahead = [job.id for job in unpassed if job.id == only and not job.skipped_by_condition]
    again: set[int] = set()
    while ahead:
        job_id = ahead.pop()
        if job_id not in again and job_id not in taken:
            again.add(job_id)
            ahead += undecided.intersection(dependents.get(job_id, ()))
            ahead += parents.get(job_id, ())
    return again


def wait_reason(storage: Storage, build: Build) -> str | None:
    """Return why a build waits; None if it does not, or if only its jobs do."""
    if build.state.terminal:
        return None
    if build.waits_for is None:
        return _of_source(storage, build)
    if build.waits_for is WaitsFor.APPROVAL:
        return f"waiting for approval: {build.approval_reason}"
    turn = storage.concurrency_groups.turn(build)
    return None if turn is None else _of_turn(turn)


def _of_source(storage: Storage, build: Build) -> str | None:
    """Return why the source of a build is not downloaded yet; None if nothing keeps it from that."""
    if build.has_source or build.planned or build.state is not BuildState.SCHEDULED:
        return None
    render = storage.renders.get(build.id)
    if render is None or render.finished_at is not None or render.source_url is None:
        return None
    if storage.build_room.has_source_room(build.organization_id):
        return None
    return "waiting for room: the sources of the organization's builds that have not ended take too many GB"


def _of_turn(turn: Turn) -> str:
    running = ", ".join(turn.running) or "its turn"
    most = "1 build" if turn.limit == 1 else f"{turn.limit} builds"
    before = f", and {turn.before} {'is' if turn.before == 1 else 'are'} before this one" if turn.before else ""
    return f'waiting for {running}: the concurrency group "{turn.group}" runs {most} at a time{before}'
