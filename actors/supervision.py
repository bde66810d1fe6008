"""What all actors of the service share: they stand when a handler raises, and their parent learns of their end."""

from __future__ import annotations

import contextvars
import errno
import logging
import threading
from abc import abstractmethod
from typing import TYPE_CHECKING

import pykka

from actors.messages import ChildStopped, TaskDone, TaskFailed, Undertake
from actors.runtime import Address, post
from storage import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from actors.timer import Timer

__all__ = ["NoThread", "Supervised", "doing"]

_WORKER_PATIENCE = 5.0
_PAUSE = 1.0


class NoThread(Exception):
    """The host has no thread to give at present."""


_SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Supervised(pykka.ThreadingActor):
    """An actor with a parent, whose mailbox is never blocked by I/O: that runs on worker threads of its own.

    A handler that raises is logged and answered by ``on_error``; the actor goes on. However the actor ends, it first
    runs ``teardown`` and then tells its parent.
    """

    use_daemon_thread = True

    def __init__(self, timer: Timer, parent: Address | None) -> None:
        super().__init__()
        self._timer = timer
        self._parent = parent
        self._workers: set[threading.Thread] = set()
        self._ended = threading.Event()
        self._held_up = False
        self.log = logging.getLogger(type(self).__module__)

    @property
    def doing(self) -> str:
        """What the actor is at, in a phrase for the operator; read by any thread."""
        return ", ".join(sorted(worker.name for worker in tuple(self._workers))) or "no worker is under way"

    def begin(self) -> None:
        """Set up, before the first message."""

    @abstractmethod
    def handle(self, message: object) -> None:
        """Handle one message. In the actor's thread; must not block. May be called again with the same message."""

    def on_error(self, message: object, error: Exception) -> None:
        """Make good for a message whose handling raised: fail the job or build that it was about.

        Who is there for all of them handles it again a second later: nobody else would.
        """
        self._timer.tell_after(_PAUSE, self.actor_ref, message)

    def teardown(self) -> None:
        """Let go of everything held. In the actor's thread, at its end, whatever ended it."""

    def on_start(self) -> None:
        """Begin, or end: who cannot begin tells the parent, as pykka would not.

        Who is held up ends a second later, so that the parent may start a successor at once.
        """
        try:
            self.begin()
        except Exception as error:
            if not _passes(error):
                self._end()
                raise
            self.log.error("%s cannot begin yet: %s", self, error)
            self._held_up = True
            self._ended.wait(_PAUSE)
            self._stop()

    def on_receive(self, message: object) -> None:
        """Hand the message on, and survive what comes of it.

        What the storage or the host cannot do now it is asked to do again a second later: a full disk costs nothing.
        """
        try:
            if isinstance(message, Undertake):
                self.work(message.task, message.function)
            else:
                self.handle(message)
        except Exception as error:  # the actor's rim: a message that cannot be handled must not end the actor
            if _passes(error):
                self.log.error("%s waits: %s", self, error)
                self._timer.tell_after(_PAUSE, self.actor_ref, message)
                return
            self.log.exception("%s could not handle %r", self, message)
            self.on_error(message, error)

    def on_stop(self) -> None:
        """Tear down and tell the parent."""
        self._end()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tear down and tell the parent, after an error that ``on_error`` could not make good either."""
        self._end()

    def work(self, task: str, function: Callable[[], object]) -> None:
        """Run ``function`` on a thread of its own; its result or error comes back as TaskDone or TaskFailed.

        Where the storage cannot be used, or the host has no file handle to give, it is called again a second later, for
        as long as the actor lives. Where there is no thread, it is called when there is.
        """

        def run() -> None:
            message = self._outcome(task, function)
            self._workers.discard(worker)
            post(self.actor_ref, message)

        about = contextvars.copy_context()
        worker = threading.Thread(target=about.run, args=(run,), name=f"{type(self).__name__}-{task}", daemon=True)
        self._workers.add(worker)
        try:
            worker.start()
        except RuntimeError as error:
            self._workers.discard(worker)
            self.log.error("%s of %s waits for a thread: %s", task, self, error)
            self._timer.tell_after(_PAUSE, self.actor_ref, Undertake(task, function))

    def _outcome(self, task: str, function: Callable[[], object]) -> TaskDone | TaskFailed:
        while True:
            try:
                return TaskDone(task, function())
            except Exception as error:  # noqa: BLE001 - the worker's rim: every error becomes a message to its actor
                if not _passes(error):
                    return TaskFailed(task, error)
                self.log.error("%s of %s waits: %s", task, self, error)
                if self._ended.wait(_PAUSE):
                    return TaskFailed(task, error)

    def _start_actor_loop(self) -> None:
        """Start the actor's thread. Raises NoThread, and then the actor has never been."""
        try:
            super()._start_actor_loop()
        except RuntimeError as error:
            pykka.ActorRegistry.unregister(self.actor_ref)
            raise NoThread(str(error)) from error

    def _end(self) -> None:
        self._ended.set()
        try:
            self.teardown()
            for worker in tuple(self._workers):
                worker.join(_WORKER_PATIENCE)
        finally:
            post(self._parent, ChildStopped(self.actor_urn, self._held_up))


def _passes(error: Exception) -> bool:
    """Tell whether an error is one that passes by itself: the host lacks something for a while."""
    return isinstance(error, DatabaseUnavailable | NoThread) or (isinstance(error, OSError) and error.errno in _SCARCE)


def doing(address: Address) -> str:
    """Say what an actor is at without asking it, since it may be stuck."""
    actor = address._actor_weakref()  # noqa: SLF001 - pykka has no other way to look at an actor from outside
    return actor.doing if isinstance(actor, Supervised) else "it has ended"
