"""The process of the `ci-daemon` command. Ctrl-C ends it with one sentence and 130, whenever it comes."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from ci_daemon.interrupts import MESSAGE, OF_SIGNAL, Interrupts

if TYPE_CHECKING:
    from typing import NoReturn

_NEW_OBJECTS = 100_000
"""The number of new objects after which garbage is looked for; a small command ends before."""


def program() -> NoReturn:
    """Run the command as this process, which ends without freeing its memory.

    That would take a sixth of a small command's time. All else that the interpreter does at its end is done.
    """
    code = OF_SIGNAL + signal.SIGINT
    Interrupts().install(signal.SIGINT)
    gc.set_threshold(_NEW_OBJECTS)
    try:
        try:
            from ci_daemon.command import main  # noqa: PLC0415 - so that an interrupt of its import is handled, too

            code = main()
        finally:
            _end_at_once(code)
    except KeyboardInterrupt:
        _end_at_once(code)
        with suppress(OSError):
            os.write(2, f"\nci-daemon: {MESSAGE}\n".encode())
    with suppress(OSError, ValueError):  # an error of what the command has written is its own
        sys.stdout.flush()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as the interpreter does
    atexit._run_exitfuncs()  # noqa: SLF001 - the same
    os._exit(code)


def _end_at_once(code: int) -> None:
    """Let Ctrl-C no longer interrupt the process, but end it."""
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(code))


if __name__ == "__main__":
    program()
