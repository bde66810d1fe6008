"""Connect this process's terminal to a remote program, and restore the terminal afterwards."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from actors.vms import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms import Dialog

__all__ = ["at_terminal", "converse", "own_window"]

_BLOCK = 1 << 16


def at_terminal() -> bool:
    """Tell whether stdin and stdout are a terminal."""
    return os.isatty(sys.stdin.fileno()) and os.isatty(sys.stdout.fileno())


def own_window() -> Window:
    """Return the type and size of this process's terminal."""
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return Window(os.environ.get("TERM", "dumb"), columns, rows)


def converse(dialog: Dialog, *, interactive: bool) -> int:
    """Forward this process's input to a program, and its output back, until it ends; return its exit code.

    If ``interactive``, keys are sent one by one, and so is each change of the terminal's size. Raises ConnectionLost.
    """
    stdin, stdout, stderr = sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()
    sys.stdout.flush()
    sys.stderr.flush()
    threading.Thread(target=_feed, args=(dialog, stdin), name="stdin", daemon=True).start()
    with ExitStack() as restored:
        resized = restored.enter_context(_resizes()) if interactive else None
        if interactive:
            restored.enter_context(_raw(stdin))
        awaited = [dialog.fileno()] if resized is None else [dialog.fileno(), resized]
        while True:
            ready, _, _ = select.select(awaited, [], [])
            if resized in ready:
                os.read(resized, _BLOCK)
                dialog.resize(*os.get_terminal_size(stdout))
            if (exit_code := dialog.hear(stdout, stderr)) is not None:
                return exit_code


def _feed(dialog: Dialog, stdin: int) -> None:
    while dialog.say(os.read(stdin, _BLOCK)):
        pass


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Put the terminal into raw mode: keys arrive as they are pressed, without echo."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def _resizes() -> Iterator[int]:
    """Yield a descriptor that becomes readable when the terminal's size changes."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handled = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    try:
        yield reading
    finally:
        signal.signal(signal.SIGWINCH, handled)
        signal.set_wakeup_fd(woken)
        os.close(reading)
        os.close(writing)
