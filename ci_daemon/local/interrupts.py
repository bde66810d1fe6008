"""The signals that end `ci-daemon run`: the first cancels the build, the next ends all at once."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import storage
from ci_daemon.interrupts import OF_SIGNAL, Interrupt, Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STARTING = (ThreadPoolExecutor.submit.__code__, threading.Thread.start.__code__)


class BuildInterrupts(Interrupts):
    """The signals of one command, whose handlers are set while it is entered. For the main thread.

    While a build runs, the first signal cancels it, and the command goes on to the end of that. Any other raises
    KeyboardInterrupt, once: what cleans up then is not interrupted. Where what runs must end, or where nobody sees an
    exception, it is raised a moment later.
    """

    def __init__(self) -> None:
        super().__init__()
        self._received: int | None = None
        self._raised = False
        self._deferred = False
        self._cancel: threading.Event | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command that was interrupted, 128 and the number of the signal; else None."""
        return None if self._received is None else OF_SIGNAL + self._received

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals of this process."""
        restore = self.install(*_SIGNALS)
        try:
            yield
        finally:
            self._raised = True
            restore()

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
        elif not self._raised and self._must_end(frame):
            self._deferred = first
            self._send_again(number)
        elif not self._raised:
            self._raised = True
            raise Interrupt(number, first)

    def _dropped(self, interrupt: Interrupt) -> None:
        _, self._deferred = interrupt.args
        self._raised = False

    def _must_end(self, frame: FrameType | None) -> bool:
        """Tell also of transactions, and of threads that are being started, which nobody would wait for."""
        if super()._must_end(frame):
            return True
        while frame is not None:
            module = frame.f_globals.get("__name__", "").partition(".")[0]
            if module == storage.__name__ or frame.f_code in _STARTING:
                return True
            frame = frame.f_back
        return False
