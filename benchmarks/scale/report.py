"""The benchmark of one daemon over a fleet, at two sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.scale.run import Phase, Size, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.testbed import Testbed

_SIZES = (Size(200, 20), Size(2000, 200))
_MB = 10**6


class ScaleBenchmark:
    """One daemon with all jobs running at once, over members in memory that answer as slowly as real ones."""

    name = "scale"
    title = "One daemon over a fleet: what it does each second, and what it holds, while so many jobs run at once"
    baseline = (
        "the smaller size. The fleet is simulated, with the delays that were measured on Incus and real SSH to every "
        "VM; the members, and TLS to them, take no CPU here."
    )

    def report(self, testbed: Testbed) -> Table:
        """Measure each size; return a line for each figure, with a column for each phase."""
        made = Table(box=None, pad_edge=False, show_header=False)
        for size in _SIZES:
            phases = list(run(testbed, size))
            heading = f"{size.jobs:,} jobs, {size.members} members"
            made.add_row(heading, *(phase.name for phase in phases), style="bold")
            figures = [dict(_figures(phase)) for phase in phases]
            for label in figures[0]:
                made.add_row(f"  {label}", *(each[label] for each in figures))
        for column in made.columns[1:]:
            column.justify = "right"
        return made


def _figures(phase: Phase) -> Iterator[tuple[str, str]]:
    rates, done, answers = phase.done.since(phase.began), phase.done, phase.answers_ms
    yield "jobs a second", f"{phase.jobs / (done.at - phase.began.at):.0f}" if phase.jobs else ""
    yield "cores", f"{rates.cores:.2f}"
    yield "transactions a second", f"{rates.commits:,.0f}"
    yield "wake-ups a second", "" if phase.jobs else f"{rates.wakeups:,.0f}"
    yield "MB of logs a second", f"{rates.log_bytes / _MB:.1f}"
    yield "threads", f"{done.threads:,}"
    yield "open files", f"{done.files:,}"
    yield "MB of memory", f"{done.memory_bytes / _MB:,.0f}"
    yield "API: median, ms", f"{answers[len(answers) // 2]:.1f}" if answers else ""
    yield "API: 99th percentile, ms", f"{answers[len(answers) * 99 // 100]:.1f}" if answers else ""


SCALE = ScaleBenchmark()
