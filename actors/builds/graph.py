"""The graph of a build's jobs, and the effect of their progress on each other. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.builds.attempt.assignment import Assignment
from actors.builds.states import JobEvent, Progress, blocks, satisfies
from storage import Edge, EdgeKind, Job, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage import Build, Lease


@dataclass(slots=True)
class Node:
    """A job in its build's graph: its edges and its progress."""

    job: Job
    progress: Progress
    prerequisites: list[Edge] = field(default_factory=list)
    dependents: list[Edge] = field(default_factory=list)


class Graph:
    """Maps row ids of jobs to nodes, in DAG creation order."""

    def __init__(self, jobs: Iterable[Job], edges: Iterable[Edge]) -> None:
        self._nodes: dict[int, Node] = {}
        self._continuing: set[int] = set()
        self.add(jobs, edges)

    def add(self, jobs: Iterable[Job], edges: Iterable[Edge]) -> list[int]:
        """Add the jobs that are not known yet, with the edges to them; return their ids."""
        new = {job.id: Node(job, Progress.of(job)) for job in jobs if job.id not in self._nodes}
        self._nodes |= new
        for edge in edges:
            if edge.to_id in new:
                self._nodes[edge.from_id].dependents.append(edge)
                self._nodes[edge.to_id].prerequisites.append(edge)
        self._continuing = self._after_failures()
        return list(new)

    def __getitem__(self, job_id: int) -> Node:
        return self._nodes[job_id]

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._nodes

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._nodes))  # jobs may join meanwhile

    def progress(self) -> Iterator[Progress]:
        """Return the progress of each job."""
        return (node.progress for node in self._nodes.values())

    def assignment(self, build: Build, job: Job, lease: Lease) -> Assignment:
        """Return the assignment for the actor of a job's attempt."""
        takers = list(self._takers(job.id))
        disk_children = [edge for edge in self._nodes[job.id].dependents if edge.kind is EdgeKind.BUILDS_IN]
        return Assignment(
            build=build,
            job=job,
            lease=lease,
            parent=self.parent(job.id),
            disk_children=bool(disk_children),
            disk_children_of_failure=any(
                edge.continue_on_failure or self._nodes[edge.to_id].job.only_after_failure for edge in disk_children
            ),
            takes_workspace=any(edge.workspace for edge in self._nodes[job.id].prerequisites),
            workspace_takers=any(after_all or edge.from_id == job.id for edge, after_all in takers),
            workspace_takers_after_failure=any(after_all for _, after_all in takers),
            workspace_in_names=any(self._is_cached(edge.to_id) for edge, _ in takers),
        )

    def _takers(self, job_id: int) -> Iterator[tuple[Edge, bool]]:
        """Yield the edges over which a job's workspace may be taken, also behind one that is skipped.

        With each comes whether its job may run after a failure, or after one between them has been skipped.
        """
        ahead, seen = [(job_id, False)], set[tuple[int, bool]]()
        while ahead:
            here, passed_over = ahead.pop()
            for edge in self._nodes[here].dependents:
                if not edge.workspace and edge.kind is not EdgeKind.BUILDS_IN:
                    continue
                only_after = self._nodes[edge.to_id].job.only_after_failure
                if edge.workspace:
                    yield edge, passed_over or edge.continue_on_failure or only_after
                further = edge.to_id, passed_over or only_after
                if further not in seen:
                    seen.add(further)
                    ahead.append(further)

    def _is_cached(self, job_id: int) -> bool:
        """Tell whether a job is cached, or one that starts from its disk."""
        node = self._nodes[job_id]
        return node.job.cache_key is not None or any(edge.kind is EdgeKind.BUILDS_IN for edge in node.dependents)

    def parent(self, job_id: int) -> Job | None:
        """Return the job in whose disk this one builds, or None."""
        edges = self._nodes[job_id].prerequisites
        return next((self._nodes[edge.from_id].job for edge in edges if edge.kind is EdgeKind.BUILDS_IN), None)

    def readiness(self, job_id: int) -> JobEvent | None:
        """Return READY, BLOCKED or UNMET, as follows from a pending job's prerequisites; None yet."""
        node = self._nodes[job_id]
        if node.progress.state is not JobState.PENDING:
            return None
        if (skipped := self._skipped_source(job_id)) is not None:
            return JobEvent.UNMET if skipped.progress.skipped_by_condition else JobEvent.BLOCKED
        before = [(self._nodes[edge.from_id].progress, edge.continue_on_failure) for edge in node.prerequisites]
        blocked = any(blocks(progress, continue_on_failure=forgiving) for progress, forgiving in before)
        if node.job.only_after_failure:
            ended = all(progress.state.terminal for progress, _ in before)
            return (JobEvent.READY if blocked else JobEvent.UNMET) if ended else None
        if blocked:
            return JobEvent.BLOCKED
        if all(satisfies(progress, continue_on_failure=forgiving) for progress, forgiving in before):
            return JobEvent.READY
        return None

    def _skipped_source(self, job_id: int) -> Node | None:
        """Return a skipped job whose disk or files a job wants; of a matrix all cells have to be skipped."""
        node = self._nodes[job_id]
        sources: dict[str, list[Node]] = {}
        for edge in node.prerequisites:
            before = self._nodes[edge.from_id]
            if edge.kind is EdgeKind.BUILDS_IN or before.job.plan_key in node.job.files:
                sources.setdefault(before.job.plan_key, []).append(before)
        for found in sources.values():
            if all(each.progress.state is JobState.SKIPPED for each in found):
                return next((each for each in found if not each.progress.skipped_by_condition), found[0])
        return None

    def why_unmet(self, job_id: int) -> str:
        """Return the reason of UNMET, for people."""
        if (skipped := self._skipped_source(job_id)) is not None:
            takes = "takes the files" if skipped.job != self.parent(job_id) else "starts from the disk"
            return f'it {takes} of "{skipped.job.plan_key}", which is skipped'
        return "it runs after a failure, and nothing that it needs has failed"

    def to_cancel(self) -> set[int]:
        """Return the jobs to cancel if the build fails fast; none while no job that ran in it has failed.

        These are the unfinished jobs, except those that also run after a failure: the dependents over
        ``continue_on_failure`` edges, those that run only after one, and everything that depends on them.
        """
        if not any(node.progress.failed and node.job.taken_from is None for node in self._nodes.values()):
            return set()
        unfinished = {job_id for job_id, node in self._nodes.items() if not node.progress.state.terminal}
        return unfinished - self._continuing

    def _after_failures(self) -> set[int]:
        ahead = [
            edge.to_id
            for node in self._nodes.values()
            for edge in node.prerequisites
            if (edge.continue_on_failure or node.job.only_after_failure)
            and not self._nodes[edge.from_id].job.skipped_by_condition
        ]
        found: set[int] = set()
        while ahead:
            job_id = ahead.pop()
            if job_id not in found:
                found.add(job_id)
                ahead += [edge.to_id for edge in self._nodes[job_id].dependents]
        return found
