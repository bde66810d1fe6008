"""The time and cost of a finished build, job by job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from api.operations import BuildRecord, JobRecord, billing


@immutable
class JobCost:
    """A job and its debit in cents, None if nobody pays."""

    job: JobRecord
    cents: int | None = None


@immutable
class Summary:
    """A finished build and its jobs in DAG creation order."""

    build: BuildRecord
    rows: tuple[JobCost, ...]

    @property
    def cents(self) -> int | None:
        """The cost of all jobs together, None if nobody pays."""
        costs = [row.cents for row in self.rows if row.cents is not None]
        return sum(costs) if costs else None

    def as_json(self) -> dict[str, object]:
        """Return the summary as a JSON document."""
        return {
            "number": self.build.number,
            "state": self.build.state,
            "error_code": self.build.error_code,
            "error_message": self.build.error_message,
            "warnings": list(self.build.warnings),
            "seconds": self.build.seconds,
            "cents": self.cents,
            "jobs": [
                {
                    "id": row.job.uuid,
                    "name": row.job.name,
                    "step_key": row.job.step_key,
                    "state": row.job.state,
                    "exit_code": row.job.exit_code,
                    "error_code": row.job.error_code,
                    "error_message": row.job.error_message,
                    "seconds": row.job.seconds,
                    "cents": row.cents,
                }
                for row in self.rows
            ],
        }


def summarize(
    build: BuildRecord, jobs: Sequence[JobRecord], pipeline: str, debits: Iterable[billing.Transaction]
) -> Summary:
    """Match the jobs of a finished build with their debits.

    A debit's description names its job: ``<pipeline> #<number> <step key>``.
    """
    cents = {entry.description: -entry.amount_cents for entry in debits}
    rows = (JobCost(job, cents.get(f"{pipeline} #{build.number} {job.step_key}", 0)) for job in jobs)
    return Summary(build, tuple(rows))
