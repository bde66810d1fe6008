"""Live screens: output that is redrawn until the user quits."""

from __future__ import annotations

import select
import sys
import termios
import time
import tty
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.live import Live

from ci_daemon.terminal.progress import can_redraw
from ci_daemon.terminal.tables import print_renderable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

_REFRESH_SECONDS = 1.0


def redraw(draw: Callable[[], RenderableType]) -> None:
    """Redraw in place every second until q or Ctrl-C.

    If stdout is no capable terminal, print one screen after the other until Ctrl-C.
    """
    if not can_redraw(sys.stdout):
        repeat(lambda: print_renderable(draw()))
        return
    with suppress(KeyboardInterrupt), _key_reader() as read_key, Live(auto_refresh=False, screen=True) as live:
        while True:
            live.update(draw(), refresh=True)
            if read_key() in {"q", "Q"}:
                return


def repeat(show: Callable[[], None]) -> None:
    """Call a function every second until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        while True:
            show()
            sys.stdout.flush()
            time.sleep(_REFRESH_SECONDS)


@contextmanager
def _key_reader() -> Iterator[Callable[[], str]]:
    """Yield a function that waits at most a second for a key and returns it, or "".

    Ctrl-C interrupts the wait.
    """
    if not sys.stdin.isatty():
        yield _wait_without_keys
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield lambda: sys.stdin.read(1) if select.select([sys.stdin], [], [], _REFRESH_SECONDS)[0] else ""
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait_without_keys() -> str:
    time.sleep(_REFRESH_SECONDS)
    return ""
