"""Benchmarks and their figures, each measured in turns with its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Protocol

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.testbed import Testbed

_ROUNDED_TO_INTEGERS = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result: ``ours`` and its ``baseline``, both in ``unit``."""

    label: str
    unit: str
    ours: float
    baseline: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A question about the service; ``baseline`` is a sentence about what its figures are compared with."""

    name: str
    title: str
    baseline: str
    measure: Callable[[Testbed], Iterator[Figure]]

    def report(self, testbed: Testbed) -> Table:
        """Measure and return the figures as a table."""
        return table(self.measure(testbed))


class Report(Protocol):
    """The interface of a benchmark: a `Benchmark`, or one with a table of its own form."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """The question."""

    @property
    def baseline(self) -> str:
        """A sentence about what the figures are compared with."""

    def report(self, testbed: Testbed) -> Table:
        """Measure and return the result as a table."""


def interleaved(label: str, unit: str, rounds: int, ours: Callable[[], float], baseline: Callable[[], float]) -> Figure:
    """Measure both sides once per round and return the median of each.

    In turns, a drift of the machine's speed affects both sides alike.
    """
    results = [(ours(), baseline()) for _ in range(rounds)]
    return Figure(label, unit, *map(median, zip(*results, strict=True)))


def table(figures: Iterable[Figure]) -> Table:
    """Return figures as a table."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(min_width=40)
    for heading, width in (("ours", 12), ("baseline", 12), ("ratio", 6)):
        made.add_column(heading, justify="right", min_width=width)
    for figure in figures:
        values = [f"{_rounded(value)} {figure.unit}" for value in (figure.ours, figure.baseline)]
        made.add_row(figure.label, *values, f"{figure.ours / figure.baseline:.2f}")
    return made


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= _ROUNDED_TO_INTEGERS else f"{value:.1f}"
