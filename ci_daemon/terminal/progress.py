"""Progress on a terminal: a line that changes in place and goes at the end; elsewhere there is none."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_daemon.terminal.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO


def can_redraw(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}


def shows_progress() -> bool:
    """Tell whether a person sees progress on stderr.

    Nobody does in a pipe, nor with `--quiet`, whose stdout is no terminal.
    """
    return can_redraw(sys.stderr) and sys.stdout.isatty()


# ruff: noqa: PLC0415 - rich is imported only where it draws, because that takes longer than a small command


@contextmanager
def progress_line(opening: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on stderr, and yield a function that changes the text."""
    if not shows_progress():
        yield lambda _text: None
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with console.status(printable(opening)) as status:
        yield lambda text: status.update(printable(text))


@contextmanager
def transfer_progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr, and yield a function that takes how many bytes of a transfer are done."""
    if not shows_progress():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(printable(name)), total=total)
        yield lambda done: progress.update(task, completed=done)
