"""The base class of actors, which survive errors and tell their parent their end, and their threads.

A thread has a log context: the build and job that it works on, which every record has that is logged there.
"""

from __future__ import annotations

import contextvars
import errno
import logging
import threading
from abc import abstractmethod
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import pykka

from actors.addresses import Address
from actors.messages import ChildStopped
from storage import DatabaseDamaged, DatabaseUnavailable, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from actors.timer import Timer

_REST_SECONDS = 10.0
_WORKER_TIMEOUT = 5.0
_TRANSIENT_ERRORS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}

MessageT_contra = TypeVar("MessageT_contra", contravariant=True)
TaskT = TypeVar("TaskT")
P = ParamSpec("P")

_CURRENT: ContextVar[Mapping[str, str]] = ContextVar("about", default=MappingProxyType({}))


class Running:
    """A function that a worker thread runs, by its name."""

    def __init__(self, name: str, function: Callable[[], object]) -> None:
        self.name = name
        self._function = function
        self._ended = threading.Event()

    def run(self) -> None:
        """Run it, on the worker thread. The function raises nothing."""
        try:
            self._function()
        finally:
            self._ended.set()

    @property
    def ended(self) -> bool:
        """True once it has ended."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most that long."""
        self._ended.wait(seconds)


class WorkerThreads:
    """As many threads as functions run at once; each ends when it has rested for ten seconds.

    Safe in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resting: list[SimpleQueue[Running]] = []

    @property
    def resting(self) -> int:
        """The number of threads that wait for a function."""
        return len(self._resting)

    def start(self, name: str, function: Callable[[], object]) -> Running:
        """Run a function that raises nothing.

        Raises RuntimeError if no thread rests and the host has no other.
        """
        running = Running(name, function)
        with self._lock:
            tasks = self._resting.pop() if self._resting else None
        if tasks is None:
            threading.Thread(target=self._work, args=(running,), name=name, daemon=True).start()
        else:
            tasks.put(running)
        return running

    def _work(self, running: Running) -> None:
        tasks: SimpleQueue[Running] = SimpleQueue()
        thread = threading.current_thread()
        while True:
            thread.name = running.name
            running.run()
            thread.name = "resting"
            with self._lock:
                self._resting.append(tasks)
            try:
                running = tasks.get(timeout=_REST_SECONDS)
            except Empty:
                with self._lock, suppress(ValueError):
                    self._resting.remove(tasks)
                    return
                running = tasks.get()  # it was given a task at the last moment


_threads = WorkerThreads()


class NoThread(Exception):
    """The host cannot start another thread at present."""


@immutable
class _RunTask(Generic[TaskT]):
    """Timer to an actor: run this task, for which the host had no thread before."""

    task: TaskT
    function: Callable[[], Any]


@immutable
class _TaskFailed(Generic[TaskT]):
    """Worker thread to its actor: the task raised an error."""

    task: TaskT
    error: Exception


class Supervised(pykka.ThreadingActor, Generic[MessageT_contra, TaskT]):
    """An actor with a parent. Its I/O runs on worker threads, so that it never blocks the mailbox.

    It is generic over its messages and over its tasks: an enum, or data classes. If a handler raises, the error is
    logged and passed to ``on_error``, and the actor goes on. However the actor ends, it first runs ``teardown`` and
    then tells its parent. Work that fails for lack of disk, memory, handles or threads is retried after
    ``retry_seconds``. ``rest`` is called whenever the thread has no message left, perhaps for long.
    """

    def __init__(
        self,
        timer: Timer,
        parent: Address[ChildStopped] | None,
        retry_seconds: float,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._rest = rest
        self._timer = timer
        self._retry_seconds = retry_seconds
        self._parent = parent
        self._mailbox: Address[object] = Address(self.actor_ref)
        self._under_way: set[Running] = set()
        self._ended = threading.Event()
        self._transient = False
        self.log = logging.getLogger(type(self).__module__)

    @property
    def address(self) -> Address[MessageT_contra]:
        """The address of this actor, which no successor takes over."""
        return self._mailbox

    @property
    def doing(self) -> str:
        """The work under way, as a phrase for the operator. Safe in any thread."""
        return (
            ", ".join(sorted(each.name for each in tuple(self._under_way) if not each.ended))
            or "no worker is under way"
        )

    def begin(self) -> None:
        """Set up, before the first message."""

    @abstractmethod
    def handle(self, message: MessageT_contra) -> None:
        """Handle one message. In the actor's thread; must not block. The same message may come again."""

    def on_task_error(self, task: TaskT, error: Exception) -> None:
        """Deal with the error of a task. In the actor's thread."""
        self.log.error("%s failed: %s", task, error, exc_info=error)

    def on_error(self, message: object, error: Exception) -> None:
        """Deal with a message whose handler raised: fail its job or build.

        By default, for actors that serve all jobs, the message is handled again a second later.
        """
        self._retry(message)

    def teardown(self) -> None:
        """Release everything that the actor holds. In the actor's thread, at its end for any reason."""

    def on_start(self) -> None:
        """Run ``begin``. If that raises, end and tell the parent, which pykka would not do.

        After a transient error the actor ends a second later, so that the parent may start a successor at once.
        """
        try:
            self.begin()
        except Exception as error:
            if not _is_transient(error):
                self._end()
                raise
            self.log.error("%s cannot begin yet: %s", self, error)
            self._transient = True
            self._ended.wait(self._retry_seconds)
            self._stop()
        finally:
            self._rest()

    def on_receive(self, message: object) -> None:
        """Handle a message and survive its errors.

        If the storage or the host is short of something, the message is handled again a second later, so that a full
        disk loses nothing.
        """
        try:
            match message:
                case _RunTask(task, function):
                    self.work(task, function)
                case _TaskFailed(task, error):
                    self.on_task_error(task, error)
                case _:
                    self.handle(cast("MessageT_contra", message))
        except Exception as error:  # the actor's boundary: a message that cannot be handled must not end the actor
            if _is_transient(error):
                self.log.error("%s waits: %s", self, error)
                self._retry(message)
                return
            self.log.exception("%s could not handle %r", self, message)
            self.on_error(message, error)
        finally:
            self._rest()

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

    def work(self, task: TaskT, function: Callable[[], MessageT_contra | None]) -> None:
        """Run ``function`` on a worker thread; the message that it returns comes back to this actor.

        Its error goes to ``on_task_error``. If the storage is unavailable, or the host is out of file handles or
        memory, the function is called again every second while the actor lives. If no thread can be started, it is
        called once there is one.
        """

        def run() -> None:
            message = self._outcome(task, function)
            if message is not None:
                self._mailbox.post(message)

        context = contextvars.copy_context()
        self._under_way = {each for each in self._under_way if not each.ended}
        try:
            self._under_way.add(_threads.start(f"{type(self).__name__}-{task}", partial(context.run, run)))
        except RuntimeError as error:
            self.log.error("%s of %s waits for a thread: %s", task, self, error)
            self._retry(_RunTask(task, function))

    def _outcome(
        self, task: TaskT, function: Callable[[], MessageT_contra | None]
    ) -> MessageT_contra | _TaskFailed[TaskT] | None:
        while True:
            try:
                return function()
            except Exception as error:  # noqa: BLE001 - the worker's boundary: every error becomes a message to its actor
                if not _is_transient(error):
                    return _TaskFailed(task, error)
                self.log.error("%s of %s waits: %s", task, self, error)
                if self._ended.wait(self._retry_seconds):
                    return _TaskFailed(task, error)

    def _retry(self, message: object) -> None:
        self._timer.tell_after(self._retry_seconds, self._mailbox, message)

    @staticmethod
    def _create_actor_inbox() -> SimpleQueue[Any]:
        """Return a mailbox in C, which does not hold a lock that its reader wants while it wakes it."""
        return SimpleQueue()

    def _start_actor_loop(self) -> None:
        """Run the actor on a worker thread, in a log context of its own.

        Raises NoThread; the actor is then not registered.
        """
        name = f"{type(self).__name__}-{self.actor_urn.rpartition('-')[2]}"
        try:
            _threads.start(name, partial(contextvars.Context().run, self._actor_loop))
        except RuntimeError as error:
            pykka.ActorRegistry.unregister(self.actor_ref)
            raise NoThread(str(error)) from error

    def _end(self) -> None:
        self._ended.set()
        try:
            self.teardown()
            for each in tuple(self._under_way):
                each.wait(_WORKER_TIMEOUT)
        finally:
            if self._parent is not None:
                self._parent.post(ChildStopped(self.actor_urn, self._transient))


def spawn(
    actor: Callable[P, Supervised[MessageT_contra, Any]], *args: P.args, **kwargs: P.kwargs
) -> Address[MessageT_contra]:
    """Start an actor, given its class and the arguments of that, and return its address. Raises NoThread."""
    kind = cast("type[pykka.ThreadingActor]", actor)
    return Address(kind.start(*args, **kwargs))


def _is_transient(error: Exception) -> bool:
    """Tell whether an error is transient: the host is short of something for a while.

    A damaged page is not the fault of the job or build that meets it, which waits for the owner.
    """
    return isinstance(error, DatabaseUnavailable | DatabaseDamaged | NoThread) or (
        isinstance(error, OSError) and error.errno in _TRANSIENT_ERRORS
    )


def doing(address: pykka.ActorRef[Any]) -> str:
    """Describe an actor's work without a call to it, since it may be stuck."""
    actor = address._actor_weakref()  # noqa: SLF001 - pykka has no other way to look at an actor from outside
    return actor.doing if isinstance(actor, Supervised) else "it has ended"


def set_log_context(**pairs: str) -> None:
    """Set the log context of this thread, and of the worker threads that it starts from here on."""
    _CURRENT.set(pairs)


class LogContextFilter(logging.Filter):
    """Logging filter for handlers: adds the thread's context to a record, but overrides nothing in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        record.__dict__.update({**_CURRENT.get(), **record.__dict__})
        return True
