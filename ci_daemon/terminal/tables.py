"""Tables on a terminal and in pipes: one look for every list of `ci-daemon`.

On a terminal a table is as wide as that, and only wide columns give way: they wrap between words, and a longer word
ends with an ellipsis. Elsewhere a row is one line, however long, without colours.
"""

from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ci_daemon.terminal.cells import on_one_line
from ci_daemon.terminal.spans import ago, span
from ci_daemon.terminal.states import state_style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

__all__ = ["facts", "print_picture", "table"]

_NARROW = 16
"""A column of so few cells or less keeps its width."""

_COMMIT = 8
_ENDLESS = 1_000_000


def table(documents: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Table:
    """Return these keys of each document as a row.

    Times, which are ISO 8601 in a document and whose keys end with ``at`` or are ``since``, are told from now on back.
    Likewise a ``commit`` is short, a number of ``seconds`` a length of time, and a ``state`` has its colour.
    """
    now = datetime.now(UTC)
    made = Table(box=None, pad_edge=False, header_style="bold")
    rows = [[_cell(column, document[column], now) for column in columns] for document in documents]
    for position, column in enumerate(columns):
        heading = _heading(column)
        widest = max([len(heading), *(row[position].cell_len for row in rows)])
        fixed = position == 0 or widest <= _NARROW
        made.add_column(heading, no_wrap=fixed, overflow="ellipsis", min_width=min(widest, _NARROW) if fixed else None)
    for row in rows:
        made.add_row(*row)
    return made


def facts(document: Mapping[str, object]) -> Table:
    """Return one document as a table of names and values, without what has no value; a ``commit`` is whole."""
    now = datetime.now(UTC)
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for key, value in document.items():
        if value is not None:
            made.add_row(_heading(key), on_one_line(value) if key == "commit" else _cell(key, value, now))
    return made


def print_picture(picture: RenderableType) -> None:
    """Print it to stdout, in colours on a terminal that has them; elsewhere plain and as wide as it is."""
    if sys.stdout.isatty():
        Console(highlight=False, markup=False, emoji=False).print(picture)
        return
    plain = io.StringIO()
    Console(file=plain, width=_ENDLESS, highlight=False, markup=False, emoji=False, no_color=True).print(picture)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in plain.getvalue().splitlines())


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
            return Text(span(value))
        case _:
            return Text(on_one_line(value))
