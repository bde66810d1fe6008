"""Connect this process's terminal to a remote program, and restore the terminal afterwards."""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from actors.vms import Pty
from ci_daemon.terminal.raw import raw_mode, resize_descriptor

if TYPE_CHECKING:
    from actors.vms import InteractiveSession

_CHUNK_BYTES = 1 << 16


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
        resized = cleanup.enter_context(resize_descriptor()) if interactive else None
        if interactive:
            cleanup.enter_context(raw_mode(stdin))
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
