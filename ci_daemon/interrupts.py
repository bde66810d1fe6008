"""Ctrl-C as an exception that leaves nothing behind, and that its handler can turn into an exit code."""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from sys import UnraisableHookArgs
    from types import FrameType

OF_SIGNAL = 128
"""Added to a signal's number, it is the exit code of a command that the signal ended."""
MESSAGE = "interrupted"

_IMPORT_SYSTEM = "<frozen importlib"
_LOCKING = {"contextlib", "logging", "threading"}
"""Modules whose functions may lock before a `with` can unlock."""
_WAIT = threading.Condition.wait.__code__
_JOINING = {"join", "_wait_for_tstate_lock"}
_AGAIN_SECONDS = 0.01


class Interrupt(KeyboardInterrupt):
    """A signal that nobody has handled yet.

    If code in `exec` raises KeyboardInterrupt itself, as in the decorator of a data class, Python ends by the signal at
    its exit, however the exception was handled, and the exit code is lost. It does not look at subclasses.
    """


class Interrupts:
    """Signals of this process that raise `Interrupt` in the main thread, which installs them.

    Where an exception would leave something behind, or where Python drops it, it is raised a moment later.
    """

    def __init__(self) -> None:
        self._again: threading.Timer | None = None

    def install(self, *numbers: signal.Signals) -> Callable[[], None]:
        """Handle these signals; return the function that gives them back to their handlers of before."""
        hook, sys.unraisablehook = sys.unraisablehook, partial(self._raise_again, sys.unraisablehook)
        before = {number: signal.signal(number, self._handle) for number in numbers}

        def restore() -> None:
            if self._again is not None:
                self._again.cancel()
                self._again.join()
            for number, handler in before.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook

        return restore

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, which came while ``frame`` ran."""
        if self._must_end(frame):
            self._send_again(number)
        else:
            raise Interrupt(number)

    def _dropped(self, interrupt: Interrupt) -> None:
        """Note that Python has dropped an interrupt, whose signal comes again."""

    def _must_end(self, frame: FrameType | None) -> bool:
        """Tell whether an exception may leave something behind that others wait for.

        That is the lock of Python's import, and a lock or context that was taken and that `with` cannot release yet.
        The body of a module that is imported keeps nothing.
        """
        if frame is None:
            return False
        if frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):
            return True
        return frame.f_globals.get("__name__") in _LOCKING and not _waits(frame)

    def _raise_again(self, hook: Callable[[UnraisableHookArgs], object], unraisable: UnraisableHookArgs) -> None:
        """Raise an interrupt again that Python has dropped, because it came in a finalizer or a callback."""
        if isinstance(unraisable.exc_value, Interrupt):
            self._dropped(unraisable.exc_value)
            self._send_again(unraisable.exc_value.args[0])
        else:
            hook(unraisable)

    def _send_again(self, number: int) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        self._again.daemon = True
        self._again.start()


def _waits(frame: FrameType) -> bool:
    """Tell whether a condition, which has released its lock, or the end of a thread is waited for."""
    if frame.f_globals.get("__name__") == threading.__name__ and frame.f_code.co_name in _JOINING:
        return True
    return frame.f_code is _WAIT and "gotit" in frame.f_locals
