"""Tables on a terminal and in pipes, for every list of `ci-daemon`.

On a terminal a table fits its width: an ellipsis replaces the middle of wide cells, and the last column wraps between
words. Elsewhere a row is one line, however long, without colours.
"""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci_daemon.terminal.cells import on_one_line
from ci_daemon.terminal.spans import ago, duration
from ci_daemon.terminal.states import state_style

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import ConsoleOptions, RenderableType, RenderResult

__all__ = ["Rows", "facts", "fitted", "pairs", "print_picture", "shortened"]

_GAP = 2
_WIDE = 12
_NARROWEST = 8
"""The fewest characters to which a column shrinks."""

_COMMIT = 8
_ENDLESS = 1_000_000


class Rows:
    """Documents as a table with some of their keys as columns, fitted to the terminal it is drawn on.

    ISO 8601 times, whose key is ``at`` or ``since`` or ends with ``_at``, are shown relative to now. A ``commit`` is
    shortened, a number whose key ends with ``_seconds`` is shown as a duration, and a ``state`` has its colour.
    """

    def __init__(self, documents: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
        now = datetime.now(UTC)
        self._headings = [_heading(column) for column in columns]
        self._rows = [[_cell(column, document[column], now) for column in columns] for document in documents]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table; if it is too wide, leave out empty columns and then shrink the others."""
        shown = list(range(len(self._headings)))
        if sum(map(self._width, shown)) + _GAP * (len(shown) - 1) > options.max_width:
            shown = [each for each in shown if any(row[each].plain for row in self._rows)]
        widths = fitted([self._width(each) for each in shown], options.max_width - _GAP * (len(shown) - 1))
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, width in zip(shown, widths, strict=True):
            wraps = column == shown[-1]
            table.add_column(self._headings[column], no_wrap=not wraps, overflow="ellipsis", width=width)
        for row in self._rows:
            cells = [row[column] for column in shown]
            middles = [shortened(cell, width) for cell, width in zip(cells[:-1], widths, strict=False)]
            table.add_row(*middles, cells[-1])
        yield table

    def _width(self, column: int) -> int:
        return max([cell_len(self._headings[column]), *(row[column].cell_len for row in self._rows)])


def facts(document: Mapping[str, object]) -> Table:
    """Return one document as names and values, without null values; a ``commit`` is not shortened."""
    now = datetime.now(UTC)
    return pairs(
        (_heading(key), Text(on_one_line(value)) if key == "commit" else _cell(key, value, now))
        for key, value in document.items()
        if value is not None
    )


def pairs(lines: Iterable[tuple[str, Text]]) -> Table:
    """Return a table of names, each with a text that wraps beside it."""
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, text in lines:
        made.add_row(name, text)
    return made


def print_picture(picture: RenderableType) -> None:
    """Print to stdout: with colours on a terminal that has them, elsewhere plain and in full width."""
    if sys.stdout.isatty():
        Console(highlight=False, markup=False, emoji=False).print(picture)
        return
    plain = io.StringIO()
    Console(file=plain, width=_ENDLESS, highlight=False, markup=False, emoji=False, no_color=True).print(picture)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in plain.getvalue().splitlines())


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns, shrunk until they fit into ``room`` together.

    Wide columns shrink first, the widest one before the others, then narrow ones, and the first column last: it has the
    names that other commands take.
    """
    given = list(widths)
    wide = [each for each, width in enumerate(widths) if each and width > _WIDE]
    for giving in (wide, range(1, len(widths)), [0]):
        while sum(given) > room:
            widest = max(giving, key=given.__getitem__, default=0)
            if given[widest] <= _NARROWEST:
                break
            given[widest] -= 1
    return given


def shortened(cell: Text, width: int) -> Text:
    """Return a cell with its middle replaced by an ellipsis if it is too wide.

    The end stays, because names that begin alike often differ there.
    """
    if cell.cell_len <= width:
        return cell
    tail = (width - 1) // 2
    head = chop_cells(cell.plain, width - 1 - tail)[0]
    end = chop_cells(cell.plain[::-1], tail)[0][::-1] if tail else ""
    return Text(f"{head}…{end}", cell.style)


def _heading(key: str) -> str:
    return key.removesuffix("_at").removesuffix("_seconds").replace("_", " ")


def _cell(column: str, value: object, now: datetime) -> Text:
    match value:
        case str() if column == "state":
            return Text(on_one_line(value), state_style(value))
        case str() if column == "commit":
            return Text(on_one_line(value)[:_COMMIT])
        case str() if column in {"at", "since"} or column.endswith("_at"):
            return Text(ago(datetime.fromisoformat(value), now))
        case int() | float() if column.endswith("_seconds"):
            return Text(duration(value))
        case _:
            return Text(on_one_line(value))
