"""A build and its jobs as its page shows them; pure, but for the reasons why jobs wait."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from actors import wait_reason
from api.console.pages import title_of
from api.engine import waiting_reason
from api.state_looks import state_of_job, worst
from storage import BuildState, GateState, JobState, duration, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from api.engine import EngineInterface
    from storage import Build, Gate, Job, Storage


_COUNTED = {
    "passed": {JobState.PASSED},
    "failed": {JobState.FAILED, JobState.TIMED_OUT},
    "running": {JobState.ASSIGNED, JobState.RUNNING, JobState.CANCELING, JobState.TIMING_OUT},
    "waiting": {JobState.PENDING, JobState.SCHEDULED},
    "skipped": {JobState.SKIPPED},
    "canceled": {JobState.CANCELED},
}
"""The words for how many cells of a matrix are in which states."""


@immutable
class JobView:
    """A job in the list: ``detail`` says why it waits, how it ended, or that it came from the cache."""

    id: int
    position: int
    uuid: str
    name: str
    state: JobState
    detail: str
    soft_failed: bool
    started_at: datetime | None
    finished_at: datetime | None
    matrix_job: str = ""
    at_gate: bool = False
    """True if it waits for an approval."""
    generated_by: str = ""
    """The name of the job that generated it."""

    @property
    def shown(self) -> str:
        """Its state, with a name of its own for a failure that does not fail the build."""
        return state_of_job(self.state, soft_failed=self.soft_failed)

    @property
    def runs(self) -> bool:
        """True if time passes for it."""
        return self.started_at is not None and self.finished_at is None

    @property
    def seconds(self) -> float:
        """The seconds that it ran; 0 if it has not started or not ended."""
        if self.started_at is None or self.finished_at is None:
            return 0.0
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def lasted(self) -> str:
        """The time that it ran; empty if it has not started or not ended."""
        return "" if self.started_at is None or self.finished_at is None else duration(self.seconds)


@immutable
class MatrixView:
    """The cells of a job with a matrix, as one entry of the list."""

    key: str
    cells: tuple[JobView, ...]

    @property
    def position(self) -> int:
        """The place of its first cell."""
        return self.cells[0].position

    @property
    def state(self) -> str:
        """The state that matters most."""
        return worst({cell.shown for cell in self.cells})

    @property
    def counts(self) -> str:
        """The number of cells, and how many of them are in which state."""
        found = [(sum(cell.state in states for cell in self.cells), word) for word, states in _COUNTED.items()]
        return f"{len(self.cells)} cells: {', '.join(f'{number} {word}' for number, word in found if number)}"


@immutable
class Listed:
    """The entries of a list, and those that are folded at its end."""

    first: tuple[JobView | MatrixView, ...]
    folded: tuple[JobView | MatrixView, ...]


@immutable
class BuildView:
    """A build with all of its jobs at one moment; ``why`` says why it waits as a whole."""

    build: Build
    jobs: tuple[JobView, ...]
    amount: str
    why: str

    @property
    def title(self) -> str:
        """The first line of the commit's message."""
        return title_of(self.build.message, self.build.commit)

    @property
    def entries(self) -> tuple[JobView | MatrixView, ...]:
        """The jobs as they are listed: the cells of a matrix, which follow each other, are one entry."""
        entries: list[JobView | MatrixView] = []
        for key, found in groupby(self.jobs, key=lambda job: job.matrix_job):
            cells = tuple(found)
            entries += [MatrixView(key, cells)] if key and len(cells) > 1 else cells
        return tuple(entries)

    @property
    def listed(self) -> Listed:
        """The entries as its page lists them: once a build has failed, those that passed are folded."""
        if not (self.build.state.terminal and self.failed):
            return Listed(self.entries, ())
        passed = tuple(each for each in self.entries if each.state == JobState.PASSED)
        return Listed(tuple(each for each in self.entries if each.state != JobState.PASSED), passed)

    @property
    def passed(self) -> int:
        """The number of jobs that passed, and have no entry with others."""
        return sum(len(each.cells) if isinstance(each, MatrixView) else 1 for each in self.listed.folded)

    def matrices_of(self, jobs: Collection[JobView]) -> list[MatrixView]:
        """Return the matrices that some jobs are cells of."""
        keys = {job.matrix_job for job in jobs}
        return [each for each in self.entries if isinstance(each, MatrixView) and each.key in keys]

    @property
    def done(self) -> int:
        """The number of jobs that have ended."""
        return sum(job.state.terminal for job in self.jobs)

    @property
    def failed(self) -> tuple[JobView, ...]:
        """The jobs that failed it."""
        return tuple(job for job in self.jobs if job.state.failed and not job.soft_failed)

    @property
    def at_gates(self) -> tuple[JobView, ...]:
        """The jobs that wait for approvals."""
        return tuple(job for job in self.jobs if job.at_gate)

    @property
    def lasted(self) -> str:
        """The time that it ran; empty if it has not started or not ended."""
        start, end = self.build.started_at, self.build.finished_at
        return "" if start is None or end is None else duration((end - start).total_seconds())

    @property
    def started_at(self) -> datetime | None:
        """When its first job started."""
        return self.build.started_at

    @property
    def runs(self) -> bool:
        """True if time passes for it."""
        return self.started_at is not None and self.build.finished_at is None

    @property
    def may_retry(self) -> bool:
        """True if something in it did not pass and could run again."""
        return self.build.state in {BuildState.FAILED, BuildState.CANCELED} and bool(self.jobs)


def view_of(storage: Storage, engine: EngineInterface, build: Build, amount: Callable[[int], str]) -> BuildView:
    """Return a build as it is now; ``amount`` says what its cents are."""
    current = storage.builds.get(build.id) or build
    jobs = storage.jobs.of_build(build.id)
    gates = storage.gates.of_build(build.id) if any(job.environment is not None for job in jobs) else {}
    makers = {job.uuid: job.name for job in jobs if job.generates is not None}
    views = (
        _job_view(
            job,
            _detail(job, storage, engine, gates.get(job.id)),
            gates.get(job.id),
            makers.get(job.generated_by or "", ""),
        )
        for job in jobs
    )
    return BuildView(
        current,
        tuple(views),
        amount(storage.build_history.amount_cents(build.id)),
        wait_reason(storage, current) or "",
    )


def _job_view(job: Job, detail: str, gate: Gate | None, generated_by: str) -> JobView:
    made = f"generated by {generated_by}" if generated_by else ""
    return JobView(
        id=job.id,
        position=job.position,
        uuid=job.uuid,
        name=job.name,
        state=job.state,
        detail=" · ".join(part for part in (made, detail) if part),
        soft_failed=job.soft_failed,
        started_at=job.started_at,
        finished_at=job.finished_at,
        matrix_job=job.matrix_job or "",
        at_gate=gate is not None and gate.state is GateState.WAITING and not job.state.terminal,
        generated_by=generated_by,
    )


def _detail(job: Job, storage: Storage, engine: EngineInterface, gate: Gate | None) -> str:
    """Return what is to know about a job besides its state, in a few words."""
    parts = []
    if job.state.waiting:
        parts.append(waiting_reason(storage, engine, job, gate) or "")
    if job.cache_hit:
        parts.append("from the cache")
    if job.taken_from is not None:
        parts.append(f"taken over from build {job.taken_from}")
    if job.error_message:
        parts.append(job.error_message)
    elif job.exit_code:
        parts.append(f"exit code {job.exit_code}")
    if job.soft_failed and job.soft_fail_policy is not None:
        parts.append("may fail")
    if job.attempt > 1:
        parts.append(f"attempt {job.attempt}")
    return " · ".join(part for part in parts if part)
