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

from actors.vms import Pty

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms import InteractiveSession

_CHUNK_BYTES = 1 << 16


def has_terminal() -> bool:
    """Tell whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def local_pty() -> Pty:
    """Return the type and size of this process's terminal."""
    columns, rows = os.get_terminal_size(sys.stdout.fileno())
    return Pty(os.environ.get("TERM", "dumb"), columns, rows)


def attach(session: InteractiveSession, *, interactive: bool) -> int:
    """Forward this process's input to a program, and its output back, until it ends; return its exit code.

    If ``interactive``, keys are sent one by one, and so is each change of the terminal's size. Raises ConnectionLost.
    """
    stdin, stdout, stderr = sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()
    sys.stdout.flush()
    sys.stderr.flush()
    threading.Thread(target=_forward_stdin, args=(session, stdin), name="stdin", daemon=True).start()
    with ExitStack() as cleanup:
        resized = cleanup.enter_context(_resize_events()) if interactive else None
        if interactive:
            cleanup.enter_context(_raw_mode(stdin))
        watched = [session.fileno()] if resized is None else [session.fileno(), resized]
        while True:
            ready, _, _ = select.select(watched, [], [])
            if resized in ready:
                os.read(resized, _CHUNK_BYTES)
                session.resize(*os.get_terminal_size(stdout))
            if (exit_code := session.receive(stdout, stderr)) is not None:
                return exit_code


def _forward_stdin(session: InteractiveSession, stdin: int) -> None:
    while session.send(os.read(stdin, _CHUNK_BYTES)):
        pass


@contextmanager
def _raw_mode(terminal: int) -> Iterator[None]:
    """Put the terminal into raw mode: keys arrive as they are pressed, without echo."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def _resize_events() -> Iterator[int]:
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
