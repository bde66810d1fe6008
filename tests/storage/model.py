"""A plain model of jobs, builds, leases and the ledger (engine.md, "States")."""

from __future__ import annotations

from dataclasses import dataclass, field

TABLE = {
    ("pending", "ready"): "scheduled",
    ("pending", "blocked"): "skipped",
    ("pending", "unmet"): "skipped",
    ("pending", "refused"): "failed",
    ("pending", "cancel"): "canceled",
    ("pending", "build_timeout"): "timed_out",
    ("scheduled", "cancel"): "canceled",
    ("scheduled", "build_timeout"): "timed_out",
    ("scheduled", "queue_timeout"): "timed_out",
    ("scheduled", "cache_hit"): "passed",
    ("scheduled", "image_not_found"): "failed",
    ("scheduled", "granted"): "assigned",
    ("assigned", "started"): "running",
    ("assigned", "failed"): "failed",
    ("assigned", "retry"): "scheduled",
    ("running", "passed"): "passed",
    ("running", "failed"): "failed",
    ("running", "retry"): "scheduled",
    ("running", "step_timeout"): "timing_out",
    ("assigned", "build_timeout"): "timing_out",
    ("running", "build_timeout"): "timing_out",
    ("assigned", "cancel"): "canceling",
    ("running", "cancel"): "canceling",
    ("timing_out", "dead"): "timed_out",
    ("canceling", "dead"): "canceled",
}
TERMINAL = {"passed", "failed", "skipped", "canceled", "timed_out"}
HELD_SECONDS = 200
MICRO_CENTS_A_SECOND = 2 * 10_000 + 4 * 5_000 + 20 * 100
"""The price of the default shape, 2 vCPU, 4 GB and 20 GB of disk, at the default rates."""


@dataclass
class ModelAttempt:
    """An attempt at a job: its lease, the start of its command and, once it is over, its cost."""

    lease_id: int
    started_at: float | None = None
    cents: int = 0
    over: bool = False

    def close(self, now: float, *, billable: bool) -> None:
        """Close the attempt, priced by whole seconds and whole cents; an attempt that is over does not change."""
        if self.over:
            return
        self.over = True
        if billable and self.started_at is not None:
            self.cents = int(now - self.started_at) * MICRO_CENTS_A_SECOND // 1_000_000


@dataclass
class ModelHold:
    """The hold of a VM; a retry of the build releases it. ``cents`` is its cost once it is over."""

    lease_id: int
    since: float
    released_at: float | None = None
    cents: int | None = None

    def end(self, now: float, *, lost: bool) -> None:
        """End the hold, priced for no longer than it was granted."""
        until = now if self.released_at is None else self.released_at
        free = lost and self.released_at is None
        seconds = 0 if free else min(HELD_SECONDS, int(until - self.since))
        self.cents = seconds * MICRO_CENTS_A_SECOND // 1_000_000


@dataclass
class ModelJob:
    """A job; ``needs`` maps each prerequisite's position to whether any terminal state satisfies it.

    ``earlier`` has the debits of its earlier runs, and how the ledger describes them.
    """

    needs: dict[int, bool]
    state: str = "pending"
    soft_failed: bool = False
    attempts: list[ModelAttempt] = field(default_factory=list)
    holds: list[ModelHold] = field(default_factory=list)
    attempts_before: int = 0
    earlier: list[tuple[str, int]] = field(default_factory=list)

    def run_again(self, now: float) -> None:
        """Begin another run after the job's end."""
        self.earlier = self.debits
        self.attempts_before = len(self.attempts)
        self.state = "pending"
        for hold in self.holds:
            if hold.cents is None and hold.released_at is None:
                hold.released_at = now

    @property
    def debits(self) -> list[tuple[str, int]]:
        """The debit of each run that is over and ran a command, with the end of its description."""
        last = [] if self.debit is None else [(", again" if self.attempts_before else "", self.debit)]
        return self.earlier + last

    @property
    def over(self) -> bool:
        return self.state in TERMINAL

    @property
    def broken(self) -> bool:
        return self.state in {"failed", "timed_out"} and not self.soft_failed

    @property
    def debit(self) -> int | None:
        """The single debit of a run that is over and whose command ran at least once."""
        attempts = self.attempts[self.attempts_before :]
        ran = any(attempt.started_at is not None for attempt in attempts)
        return -sum(attempt.cents for attempt in attempts) if self.over and ran else None


@dataclass
class ModelBuild:
    """A build of jobs in DAG creation order."""

    jobs: list[ModelJob]
    cancel_requested: bool = False

    def settle(self) -> None:
        """Schedule or skip every pending job whose prerequisites decide it."""
        for job in self.jobs:  # prerequisites come before their dependents
            if job.state == "pending":
                before = [(self.jobs[position], forgiving) for position, forgiving in job.needs.items()]
                if any(each.over and not _satisfied(each, forgiving) for each, forgiving in before):
                    job.state = "skipped"
                elif all(_satisfied(each, forgiving) for each, forgiving in before):
                    job.state = "scheduled"

    @property
    def state(self) -> str:
        """The roll-up: the first state of the specification's list whose condition holds."""
        over = all(job.over for job in self.jobs)
        broken = any(job.broken for job in self.jobs)
        begun = any(job.attempts or job.state not in {"pending", "scheduled"} for job in self.jobs)
        return next(
            state
            for state, holds in (
                ("canceled", self.cancel_requested and over),
                ("canceling", self.cancel_requested),
                ("failed", over and broken),
                ("passed", over),
                ("failing", broken),
                ("running", begun),
                ("scheduled", True),
            )
            if holds
        )


def _satisfied(prerequisite: ModelJob, forgiving: bool) -> bool:
    return prerequisite.state == "passed" or prerequisite.soft_failed or (forgiving and prerequisite.over)
