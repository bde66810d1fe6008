"""The base class of actors: they survive handler errors, and tell their parent when they end."""

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
    """The host cannot start another thread at present."""


_SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Supervised(pykka.ThreadingActor):
    """An actor with a parent. Its I/O runs on worker threads, so that it never blocks the mailbox.

    If a handler raises, the error is logged and passed to ``on_error``, and the actor goes on. However the actor ends,
    it first runs ``teardown`` and then tells its parent.
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
        """The work under way, as a phrase for the operator. Safe in any thread."""
        return ", ".join(sorted(worker.name for worker in tuple(self._workers))) or "no worker is under way"

    def begin(self) -> None:
        """Set up, before the first message."""

    @abstractmethod
    def handle(self, message: object) -> None:
        """Handle one message. In the actor's thread; must not block. The same message may come again."""

    def on_error(self, message: object, error: Exception) -> None:
        """Deal with a message whose handler raised: fail its job or build.

        By default, for actors that serve all jobs, the message is handled again a second later.
        """
        self._timer.tell_after(_PAUSE, self.actor_ref, message)

    def teardown(self) -> None:
        """Release everything that the actor holds. In the actor's thread, at its end for any reason."""

    def on_start(self) -> None:
        """Run ``begin``. If that raises, end and tell the parent, which pykka would not do.

        If the error passes by itself, the actor ends a second later, so that the parent may start a successor at once.
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
        """Handle a message and survive its errors.

        If the storage or the host is short of something, the message is handled again a second later, so that a full
        disk loses nothing.
        """
        try:
            if isinstance(message, Undertake):
                self.work(message.task, message.function)
            else:
                self.handle(message)
        except Exception as error:  # the actor's boundary: a message that cannot be handled must not end the actor
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
        """Tear down and tell the parent, after an error that ``on_error`` could not deal with either."""
        self._end()

    def work(self, task: str, function: Callable[[], object]) -> None:
        """Run ``function`` on a thread of its own; its result or error comes back as TaskDone or TaskFailed.

        If the storage is unavailable, or the host is out of file handles or memory, it is called again every second
        while the actor lives. If no thread can be started, it is called once there is one.
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
            except Exception as error:  # noqa: BLE001 - the worker's boundary: every error becomes a message to its actor
                if not _passes(error):
                    return TaskFailed(task, error)
                self.log.error("%s of %s waits: %s", task, self, error)
                if self._ended.wait(_PAUSE):
                    return TaskFailed(task, error)

    def _start_actor_loop(self) -> None:
        """Start the actor's thread. Raises NoThread; the actor is then not registered."""
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
    """Tell whether an error passes by itself, because the host is short of something for a while."""
    return isinstance(error, DatabaseUnavailable | NoThread) or (isinstance(error, OSError) and error.errno in _SCARCE)


def doing(address: Address) -> str:
    """Describe an actor's work without a call to it, since it may be stuck."""
    actor = address._actor_weakref()  # noqa: SLF001 - pykka has no other way to look at an actor from outside
    return actor.doing if isinstance(actor, Supervised) else "it has ended"
