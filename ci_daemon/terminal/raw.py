"""This process's terminal for a remote program: keys one by one, and changes of its size."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BYTES = 1 << 10


def has_terminal() -> bool:
    """Tell whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def raw_mode(terminal: int) -> Iterator[None]:
    """Put the terminal into raw mode: keys arrive as they are pressed, without echo."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def resize_descriptor() -> Iterator[int]:
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
        os.close(writing)
        os.close(reading)


@contextmanager
def resize_events(changed: Callable[[], None]) -> Iterator[None]:
    """Call ``changed`` in a thread of its own when the terminal's size changes."""
    with resize_descriptor() as descriptor:
        ended = os.dup(descriptor)

        def watch() -> None:
            while os.read(ended, _BYTES):
                changed()
            os.close(ended)

        threading.Thread(target=watch, name="terminal-size", daemon=True).start()
        yield
