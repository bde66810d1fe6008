"""Ctrl-C and the signals that end a command: the first cancels the build, the next ends all at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sys import UnraisableHookArgs
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_SIGNAL = 128
_IMPORT_SYSTEM = "<frozen importlib"
_LOCKING = {"contextlib", "logging", "threading"}
"""Modules whose functions may lock before a `with` can unlock."""

_WAIT = threading.Condition.wait.__code__
_STARTING = (ThreadPoolExecutor.submit.__code__, threading.Thread.start.__code__)
_AGAIN_SECONDS = 0.01


class _Interrupt(KeyboardInterrupt):
    """A signal that nobody has handled yet.

    If code in `exec` raises KeyboardInterrupt itself, as in the decorator of a data class, Python ends by the signal at
    its exit, however the exception was handled, and the exit code is lost. It does not look at subclasses.
    """


class Interrupts:
    """The signals of one command, whose handlers are set while it is entered. For the main thread.

    While a build runs, the first signal cancels it, and the command goes on to the end of that. Any other raises
    KeyboardInterrupt, once: what cleans up then is not interrupted. Where what runs must end, or where nobody sees an
    exception, it is raised a moment later.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._raised = False
        self._deferred = False
        self._cancel: threading.Event | None = None
        self._again: threading.Timer | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command that was interrupted, 128 and the number of the signal; else None."""
        return None if self._received is None else _OF_SIGNAL + self._received

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals of this process."""
        hook, sys.unraisablehook = sys.unraisablehook, partial(self._raise_again, sys.unraisablehook)
        before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        try:
            yield
        finally:
            self._raised = True
            if self._again is not None:
                self._again.cancel()
                self._again.join()
            for number, handler in before.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook

    @contextmanager
    def before_the_end(self) -> Iterator[None]:
        """Let signals interrupt the block, but not what follows it, which cleans up."""
        try:
            yield
        finally:
            self._raised = True

    @contextmanager
    def canceling(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Call ``cancel`` in a thread of its own at the first signal: a handler must not wait for the storage."""
        wanted, over = threading.Event(), threading.Event()

        def run() -> None:
            wanted.wait()
            if not over.is_set():
                cancel()

        canceler = threading.Thread(target=run, name="cancel", daemon=True)
        canceler.start()
        self._cancel = wanted
        if self._received is not None:  # it comes again
            wanted.set()
        try:
            yield
        finally:
            self._cancel = None
            if not wanted.is_set():
                over.set()
                wanted.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self._received = self._received is None or self._deferred, self._received or number
        self._deferred = False
        if first and self._cancel is not None:
            self._cancel.set()
        elif not self._raised and _must_end(frame):
            self._deferred = first
            self._send_again(number)
        elif not self._raised:
            self._raised = True
            raise _Interrupt(number, first)

    def _raise_again(self, hook: Callable[[UnraisableHookArgs], object], unraisable: UnraisableHookArgs) -> None:
        """Raise an interrupt again that Python has dropped, because it came in a finalizer or a callback."""
        if isinstance(unraisable.exc_value, _Interrupt):
            number, self._deferred = unraisable.exc_value.args
            self._raised = False
            self._send_again(number)
        else:
            hook(unraisable)

    def _send_again(self, number: int) -> None:
        if self._again is not None:
            self._again.cancel()
        self._again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        self._again.daemon = True
        self._again.start()


def _must_end(frame: FrameType | None) -> bool:
    """Tell whether an exception may leave something behind that others wait for, or that nobody waits for.

    That is the lock of Python's import, a transaction, a thread that is being started, and a lock or context that was
    taken and that `with` cannot release yet. The body of a module that is imported keeps nothing.
    """
    if frame is None:
        return False
    if frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):
        return True
    if frame.f_globals.get("__name__") in _LOCKING and not _waits(frame):
        return True
    while frame is not None:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module == storage.__name__ or frame.f_code in _STARTING:
            return True
        frame = frame.f_back
    return False


def _waits(frame: FrameType) -> bool:
    """Tell whether a condition has released its lock; it takes it again before an exception leaves it."""
    return frame.f_code is _WAIT and "gotit" in frame.f_locals
