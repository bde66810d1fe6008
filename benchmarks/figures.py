"""Benchmarks and their figures, each measured in turns with its floor."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Protocol

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.place import Place

__all__ = ["Benchmark", "Figure", "Report", "by_turns", "table"]

_WITHOUT_FRACTION = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result: ``ours`` and its ``floor``, both in ``unit``."""

    what: str
    unit: str
    ours: float
    floor: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A question about the service; ``floor`` is a sentence about what its figures are compared with."""

    name: str
    title: str
    floor: str
    measure: Callable[[Place], Iterator[Figure]]

    def report(self, place: Place) -> Table:
        """Measure and return the figures as a table."""
        return table(self.measure(place))


class Report(Protocol):
    """The interface of a benchmark: a `Benchmark`, or one with a table of its own form."""

    @property
    def name(self) -> str:
        """Its name on the command line."""

    @property
    def title(self) -> str:
        """The question."""

    @property
    def floor(self) -> str:
        """A sentence about what the figures are compared with."""

    def report(self, place: Place) -> Table:
        """Measure and return the result as a table."""


def by_turns(what: str, unit: str, rounds: int, ours: Callable[[], float], floor: Callable[[], float]) -> Figure:
    """Measure both sides once per round and return the median of each.

    In turns, a drift of the machine's speed affects both sides alike.
    """
    results = [(ours(), floor()) for _ in range(rounds)]
    return Figure(what, unit, *map(median, zip(*results, strict=True)))


def table(figures: Iterable[Figure]) -> Table:
    """Return figures as a table."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(min_width=40)
    for heading, width in (("ours", 12), ("floor", 12), ("ratio", 6)):
        made.add_column(heading, justify="right", min_width=width)
    for figure in figures:
        values = [f"{_rounded(value)} {figure.unit}" for value in (figure.ours, figure.floor)]
        made.add_row(figure.what, *values, f"{figure.ours / figure.floor:.2f}")
    return made


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= _WITHOUT_FRACTION else f"{value:.1f}"
