"""Tables on a terminal and in pipes, for every list of `ci-daemon`.

On a terminal a table fits its width: an ellipsis replaces the middle of wide cells, and the last column wraps between
words. Where even the first column would be cut, a row is a block of lines. Elsewhere a row is one line, however long,
without colours.
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

from api.state_looks import look_of
from ci_daemon.terminal import print_paged
from ci_daemon.terminal.text import precise_duration, printable, relative_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rich.console import ConsoleOptions, RenderableType, RenderResult

_COLUMN_GAP = 2
_WIDE_COLUMN = 12
_MIN_WIDTH = 8
"""The fewest characters to which a column shrinks."""

_WHOLE_COLUMNS = {"action", "shape"}

_COMMIT_LENGTH = 10
_UNLIMITED_WIDTH = 1_000_000


class DocumentTable:
    """Documents as a table with some of their keys as columns, fitted to the terminal it is drawn on.

    ISO 8601 times, whose key is or ends with ``at`` or ``since``, are shown relative to now. A ``commit`` is
    shortened, a number whose key ends with ``_seconds`` is shown as a duration, and a ``state`` has its colour. An
    ``action`` and a ``shape`` are shown whole if the terminal has 80 columns. The columns of ``optional`` are left out,
    the first before the others, where wide columns would become narrow ones.
    """

    def __init__(
        self, documents: Sequence[Mapping[str, object]], columns: Sequence[str], optional: Sequence[str] = ()
    ) -> None:
        now = datetime.now(UTC)
        self._columns = columns
        self._optional = [columns.index(each) for each in optional]
        self._headings = [_heading(column) for column in columns]
        self._rows = [[_cell(column, document[column], now) for column in columns] for document in documents]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table; if it is too wide, leave out columns, shrink others, or draw blocks."""
        shown = self._shown(options.max_width)
        whole = {place for place, each in enumerate(shown) if self._columns[each] in _WHOLE_COLUMNS}
        widths = fit_widths(
            [self._width(each) for each in shown], options.max_width - _COLUMN_GAP * (len(shown) - 1), whole
        )
        if widths[0] < self._width(shown[0]):
            yield from self._blocks()
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column, width in zip(shown, widths, strict=True):
            wraps = column == shown[-1]
            table.add_column(self._headings[column], no_wrap=not wraps, overflow="ellipsis", width=width)
        for row in self._rows:
            cells = [row[column] for column in shown]
            middles = [truncate_middle(cell, width) for cell, width in zip(cells[:-1], widths, strict=False)]
            table.add_row(*middles, cells[-1])
        yield table

    def _shown(self, available: int) -> list[int]:
        """Return the columns that a table of a width has."""
        shown = list(range(len(self._headings)))
        if sum(map(self._width, shown)) + _COLUMN_GAP * (len(shown) - 1) > available:
            shown = [each for each in shown if any(row[each].plain for row in self._rows)]
        for column in self._optional:
            if column in shown and sum(map(self._least_width, shown)) + _COLUMN_GAP * (len(shown) - 1) > available:
                shown.remove(column)
        return shown

    def _blocks(self) -> Iterator[RenderableType]:
        """Yield each row as lines, because the terminal is too narrow for the names that other commands take."""
        for number, row in enumerate(self._rows):
            if number:
                yield ""
            yield two_column_table((name, cell) for name, cell in zip(self._headings, row, strict=True) if cell.plain)

    def _width(self, column: int) -> int:
        return max([cell_len(self._headings[column]), *(row[column].cell_len for row in self._rows)])

    def _least_width(self, column: int) -> int:
        """Return the width of a column, or if it is wide and shrinks, that of the widest narrow one."""
        shrinks = column and self._columns[column] not in _WHOLE_COLUMNS
        return min(self._width(column), _WIDE_COLUMN) if shrinks else self._width(column)


def property_table(document: Mapping[str, object]) -> Table:
    """Return a table of the names and values of one document, without null values.

    A text of several lines, such as a traceback, keeps them.
    """
    now = datetime.now(UTC)
    return two_column_table(
        (_heading(key), _property(key, value, now)) for key, value in document.items() if value is not None
    )


def _property(key: str, value: object, now: datetime) -> Text:
    if isinstance(value, str) and "\n" in value:
        return Text("\n".join(printable(line) for line in value.splitlines()))
    return _cell(key, value, now)


def two_column_table(lines: Iterable[tuple[str, Text]]) -> Table:
    """Return a table of names, each with a text that wraps beside it."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, text)
    return table


def print_renderable(renderable: RenderableType) -> None:
    """Print to stdout: on a terminal in colours and by the pager, elsewhere plain and in full width."""
    if sys.stdout.isatty():
        console = Console(highlight=False, markup=False, emoji=False)
        with console.capture() as captured:
            console.print(renderable)
        print_paged(captured.get().splitlines(keepends=True))
        return
    plain = io.StringIO()
    Console(file=plain, width=_UNLIMITED_WIDTH, highlight=False, markup=False, emoji=False, no_color=True).print(
        renderable
    )
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in plain.getvalue().splitlines())


def fit_widths(widths: Sequence[int], available: int, whole: Collection[int] = ()) -> list[int]:
    """Return the widths of columns, shrunk until they fit into ``available`` together.

    Columns shrink in this order: wide ones (the widest first), narrow ones, the first column, those of ``whole``. The
    first column has the names that other commands take.
    """
    fitted = list(widths)
    others = [each for each in range(1, len(widths)) if each not in whole]
    wide = [each for each in others if widths[each] > _WIDE_COLUMN]
    for group in (wide, others, [0], sorted(whole)):
        while sum(fitted) > available:
            widest = max(group, key=fitted.__getitem__, default=0)
            if fitted[widest] <= _MIN_WIDTH:
                break
            fitted[widest] -= 1
    return fitted


def truncate_middle(cell: Text, width: int) -> Text:
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
            return Text(printable(value), look_of(value).style)
        case str() if column == "commit":
            return Text(printable(value)[:_COMMIT_LENGTH])
        case str() if column in {"at", "since"} or column.endswith(("_at", "_since")):
            return Text(relative_time(datetime.fromisoformat(value), now))
        case int() | float() if column.endswith("_seconds"):
            return Text(precise_duration(value))
        case list():
            return Text(printable(", ".join(map(str, value))))
        case _:
            return Text(printable(value))
