"""Records of proofs: tests that are run again and again, to know how often they pass."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime

MOST_RUNS = 100
"""The most runs of a proof."""


@immutable
class TestName:
    """A test as a report names it; without a name it stands for the whole job."""

    __test__ = False  # pytest would take it for tests

    suite: str
    name: str


WHOLE_JOB = TestName("", "")
"""Stands for a job that is proved by its exit code, as it has no report of tests."""


class ProofState(StrEnum):
    """States of a proof: all runs have ended, or it ended before that, by a bound or by a person."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    CANCELED = "canceled"


@immutable
class NewProof:
    """A proof to begin: ``times`` runs of at most ``seconds`` each.

    ``command`` is None for the job's own. With ``exit_counts`` the exit code of a run without a report tells whether
    its one test passed, or the whole job. At most ``max_cents`` are spent, and the budget of an API key pays if one is
    given. The runs end after ``limit_seconds``.
    """

    times: int
    seconds: int
    limit_seconds: int
    tests: tuple[TestName, ...]
    opened_by: str
    command: str | None = None
    exit_counts: bool = False
    max_cents: int | None = None
    budget_id: int | None = None


@immutable
class Proof:
    """A proof; ``reason`` says why it ended before its last run."""

    id: int
    uuid: str
    organization_id: int
    pipeline_id: int
    build_id: int
    job_id: int
    times: int
    seconds: int
    max_cents: int | None
    command: str | None
    exit_counts: bool
    state: ProofState
    reason: str | None
    opened_by: str
    budget_id: int | None
    created_at: datetime
    expires_at: datetime
    finished_at: datetime | None

    @property
    def opener(self) -> str:
        """The name under which it opens forks, by which their VMs and prices are found."""
        return f"proof {self.uuid}"


@immutable
class ProvedTest:
    """A test of a proof, and how many runs it passed and failed so far; other runs told nothing of it."""

    proof_id: int
    suite: str
    name: str
    passed: int
    failed: int

    @property
    def is_whole_job(self) -> bool:
        """True if it stands for the whole job."""
        return TestName(self.suite, self.name) == WHOLE_JOB


@immutable
class ProofRun:
    """A run that has ended; ``trouble`` says why it tells nothing, None if it tells something."""

    number: int
    exit_code: int | None
    milliseconds: int
    trouble: str | None


@immutable
class PastProof:
    """A test that was proved once: in which build and job, and with what result."""

    proof: Proof
    test: ProvedTest
    build_number: int
    commit: str | None
    step_key: str
