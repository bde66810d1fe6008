"""Progress on a terminal: a line that changes in place and goes at the end; elsewhere there is none."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from ci_daemon.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["progress_line"]


@contextmanager
def progress_line(opening: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on stderr, and yield a function that changes the text."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal or not sys.stdout.isatty():
        yield lambda _text: None
        return
    with console.status(opening) as status:
        yield lambda text: status.update(printable(text))
