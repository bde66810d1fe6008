"""The threads that serve requests, and whose request is next.

A request waits for at most one of each other caller, however many those send: next is whose last turn is longest ago.
Everybody without a token or a session is one caller, a stranger, and rests after each request for as long as it took,
so that strangers take half of the service's time at most; among themselves, their addresses take turns.

A user rests after each request for as long as its thread did not compute: it waited for a CPU, or for the interpreter.
Where builds want either, a user who asks again and again gives way to them; elsewhere nobody rests. A wait for the disk
is no reason to rest: nobody computes more for a rest after it.

A thread gives up the GIL in every query and system call, and has it back at once unless another thread wants it. With
several threads at work, each of those calls waits for switches between threads, which together take longer than the
rest of a short request. So while requests are short only one thread works. If one takes long, another thread leads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from contextvars import copy_context
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from api.http.channel import Parser
    from api.middleware.client_addresses import ClientAddresses


_HOLD_SECONDS = 0.1
"""Seconds after which a caller's next task may begin although the one before has not ended."""

_REPORT_SECONDS = 0.004
"""Seconds from one report of a source host to the next: a thousand begin while source hosts wait."""

_MOST_REST_SECONDS = 0.05
_USUAL_DELAY = 0.0005
"""Seconds that a request may wait on an idle host: its client wants a CPU, and its queries read files."""

_TURN_SECONDS = 1.0
"""Seconds for which a caller's turn counts, longer than a request should ever wait."""

_HEALTH = "/healthz"
_MOST_KNOWN = 10_000

_log = logging.getLogger(__name__)
_LONG_SECONDS = 0.005
_READ_SECONDS = 1.0
_UNREAD_SECONDS = 0.001
"""Seconds to serve tasks that wait before reading again: another caller may have sent something."""

_READ_SHARE = 4
"""The same as a multiple of the time to read, which thousands of connections make slow."""


class CallerKind(Enum):
    """Kinds of callers, as far as their turns differ."""

    KNOWN = auto()
    HEALTH = auto()
    REPORT = auto()
    STRANGER = auto()


class Caller(NamedTuple):
    """The sender of a request: ``who`` is a user's id, or a stranger's address."""

    kind: CallerKind
    who: str = ""


class Callers:
    """The users behind the tokens and cookies of late requests. Safe in any thread.

    What a request says of its caller is checked as it is served, after its turn. So the first request with a token has
    the turn of a stranger.
    """

    def __init__(self, addresses: ClientAddresses) -> None:
        self._addresses = addresses
        self._known: OrderedDict[int, str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, request: Parser, peer: str) -> Caller:
        """Return who sends a request, over a connection from an address."""
        if request.reports:
            return Caller(CallerKind.REPORT)
        if request.path == _HEALTH:
            return Caller(CallerKind.HEALTH)
        credentials = request.credentials
        user = self._known.get(hash(credentials)) if credentials else None
        if user is not None:
            return Caller(CallerKind.KNOWN, user)
        forwarded = str(request.headers.get("X_FORWARDED_FOR") or "")
        return Caller(CallerKind.STRANGER, self._addresses.network_behind(peer, forwarded))

    def know(self, request: Parser, user: str) -> None:
        """Note the user who has sent a request, by its id."""
        credentials = request.credentials
        if not credentials:
            return
        with self._lock:
            self._known[hash(credentials)] = user
            self._known.move_to_end(hash(credentials))
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


class Task(Protocol):
    """Work for a worker thread: a connection with a request on it."""

    @property
    def caller(self) -> Caller:
        """The caller whose turn it takes; it is asked when the task is added."""
        ...

    def service(self) -> None:
        """Do the work. Runs in a worker thread."""
        ...

    def cancel(self) -> None:
        """Called when the task is dropped."""
        ...


class _Line:
    """The tasks of one caller that wait, and when the next one may begin."""

    def __init__(self, kind: CallerKind) -> None:
        self.kind = kind
        self.free_at = 0.0
        self._began = 0.0
        self._current: Task | None = None
        self._waiting: OrderedDict[str, deque[Task]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def idle(self) -> bool:
        """True if nothing of it waits or is being served."""
        return self._current is None and not self._waiting

    def add(self, who: str, task: Task) -> None:
        self._waiting.setdefault(who, deque()).append(task)

    def take(self, now: float) -> Task:
        who, tasks = self._waiting.popitem(last=False)
        self._current, self._began = tasks.popleft(), now
        if tasks:
            self._waiting[who] = tasks
        self.free_at = now + (_REPORT_SECONDS if self.kind is CallerKind.REPORT else _HOLD_SECONDS)
        return self._current

    def end(self, task: Task, now: float, *, waits: bool, delay: float) -> bool:
        """Note that a task has ended, or waits; tell whether others waited for it."""
        if task is not self._current:
            return False
        self._current = None
        if self.kind is not CallerKind.REPORT:
            rest = now - self._began if self.kind is CallerKind.STRANGER else delay if delay > _USUAL_DELAY else 0.0
            self.free_at = now + (0.0 if waits else min(rest, _MOST_REST_SECONDS))
        return bool(self._waiting)

    def empty(self) -> Iterator[Task]:
        """Remove and yield all tasks."""
        while self._waiting:
            yield from self._waiting.popitem(last=False)[1]


class Turns:
    """Tasks that wait for a thread. Safe in any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: dict[Caller, _Line] = {}
        self._turns: OrderedDict[Caller, float] = OrderedDict()  # when each caller had its last one, the oldest first
        self._begun: dict[
            int, Caller
        ] = {}  # the lines of tasks by their identity, for a connection outlives its request
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, task: Task) -> None:
        """Let a task wait for its turn."""
        caller = task.caller
        with self._lock:
            line = self._lines.get(_line_of(caller))
            if line is None:
                line = self._lines[_line_of(caller)] = _Line(caller.kind)
            line.add(caller.who, task)
            self._waiting += 1

    def take(self) -> Task | None:
        """Remove and return the task whose turn it is; None if no task may begin now."""
        now = self._clock()
        with self._lock:
            ready = (key for key, line in self._lines.items() if line and line.free_at <= now)
            key = min(ready, key=lambda key: self._turns.get(key, 0.0), default=None)
            if key is None:
                return None
            self._note_turn(key, now)
            self._waiting -= 1
            task = self._lines[key].take(now)
            self._begun[id(task)] = key
            return task

    def _note_turn(self, key: Caller, now: float) -> None:
        self._turns[key] = now
        self._turns.move_to_end(key)
        while next(iter(self._turns.values())) < now - _TURN_SECONDS:
            self._turns.popitem(last=False)

    def end(self, task: Task, *, waits: bool = False, delay: float = 0.0) -> bool:
        """Note that a task has ended, or needs no CPU for it waits; tell whether others waited for it.

        ``delay`` is for how many seconds its thread did not compute.
        """
        now = self._clock()
        with self._lock:
            # A connection may have begun its next request already, and that may have ended.
            key = self._begun.get(id(task)) if waits else self._begun.pop(id(task), None)
            line = None if key is None else self._lines.get(key)
            if key is None or line is None:
                return False
            awaited = line.end(task, now, waits=waits, delay=delay)
            for other in [other for other, each in self._lines.items() if each.idle and each.free_at <= now]:
                del self._lines[other]
            return awaited

    def seconds(self) -> float | None:
        """Return the seconds until a task may begin, 0 if one may now; None if no task waits."""
        now = self._clock()
        with self._lock:
            return min((max(0.0, line.free_at - now) for line in self._lines.values() if line), default=None)

    def empty(self) -> Iterator[Task]:
        """Remove and yield all tasks."""
        with self._lock:
            tasks = [task for line in self._lines.values() for task in line.empty()]
            self._waiting = 0
        yield from tasks


def _line_of(caller: Caller) -> Caller:
    """Return whose line a caller is in: strangers are in one."""
    return caller if caller.kind is CallerKind.KNOWN else Caller(caller.kind)


# Considered: waitress's `ThreadedTaskDispatcher` and other pools switch threads twice for each request, from the one
# that reads to one that serves and back, and let all that serve compete for the GIL.


class Workers:
    """A leading thread, and up to ``limit`` others that serve slow tasks.

    The others are former leaders: each finishes a slow task and ends. The leader calls ``read`` with the most seconds
    to wait for requests; ``read`` adds them as tasks, and returns False at the end. Any other thread ends that wait by
    ``wake``.
    """

    def __init__(self, limit: int, read: Callable[[float], bool], wake: Callable[[], None]) -> None:
        self._limit = limit
        self._read = read
        self._wake = wake
        self._turns = Turns()
        self._served: dict[int, Task] = {}
        self._waited: dict[int, float] = {}  # the seconds for which a task's thread waited for the disk
        self._read_by = 0.0
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._alive = 0
        self._leader: int | None = None
        self._serving_since: float | None = None
        self._serving = threading.Event()
        self._ended = threading.Event()

    @property
    def alive(self) -> int:
        """The number of running threads."""
        return self._alive

    @property
    def waiting(self) -> int:
        """The number of tasks that wait for their turn."""
        return len(self._turns)

    @property
    def leads(self) -> bool:
        """True in the thread that leads."""
        return self._leader == threading.get_ident()

    def add_task(self, task: Task) -> None:
        """Serve a task in the turn of its caller, at the earliest when ``read`` returns."""
        self._turns.add(task)

    def hand_over(self) -> None:
        """Let another thread lead if this one does, because its task is going to wait."""
        task = self._served.get(threading.get_ident())
        if task is not None and self._turns.end(task, waits=True) and not self.leads:
            self._wake()
        with self._lock:
            if self.leads:
                self._start_leader()

    def wait_for_disk(self, wait: Callable[[], None]) -> None:
        """Wait within a task, whose caller does not rest for it."""
        own, began = threading.get_ident(), time.monotonic()
        try:
            wait()
        finally:
            self._waited[own] = self._waited.get(own, 0.0) + time.monotonic() - began

    def run(self) -> None:
        """Serve until ``read`` returns False. The thread that calls this only watches the one that leads."""
        with self._lock:
            self._start_leader()
        while not self._ended.is_set():
            self._serving.wait()
            self._ended.wait(_LONG_SECONDS)
            with self._lock:
                if self._serving_since is None:
                    self._serving.clear()
                elif time.monotonic() - self._serving_since >= _LONG_SECONDS:
                    self._start_leader()

    def close(self, timeout: float) -> None:
        """Cancel tasks that did not start, and wait ``timeout`` seconds for busy threads, after `run`."""
        for task in self._turns.empty():
            task.cancel()
        with self._lock:
            self._left.wait_for(lambda: not self._alive, timeout)

    def _start_leader(self) -> None:
        thread = threading.Thread(target=self._work, name="http-worker", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the host has no thread left: `run` tries again soon
            return
        self._alive += 1
        self._leader, self._serving_since = thread.ident, None

    def _work(self) -> None:
        own = threading.get_ident()
        try:
            while (task := self._next()) is not None:
                self._served[own] = task
                began, computed = time.monotonic(), time.thread_time()
                try:
                    copy_context().run(task.service)
                except Exception:  # noqa: BLE001 - the boundary of a request; the worker serves the next one
                    _log.exception("a request failed in its worker thread")
                del self._served[own]
                waited = self._waited.pop(own, 0.0)
                self._turns.end(task, delay=time.monotonic() - began - (time.thread_time() - computed) - waited)
        finally:
            if self.leads:
                self._end()

    def _next(self) -> Task | None:
        """Return this thread's next task, which the leader reads first; None if the thread ends."""
        with self._lock:
            if self.leads:
                self._serving_since = None
            elif self._is_full() and (task := self._turns.take()) is not None:
                return task
            else:
                self._leave()
        if not self.leads:
            if self._turns:
                self._wake()
            return None
        while (task := self._take()) is None:
            if not self._read_on():
                return None
        return task

    def _take(self) -> Task | None:
        """Return the task that the thread that leads serves now; None if it has to read first."""
        if not self._turns or time.monotonic() >= self._read_by:
            return None
        with self._lock:
            if self._is_full() or (task := self._turns.take()) is None:
                return None
            self._serving_since = time.monotonic()
            if not self._serving.is_set():
                self._serving.set()
            return task

    def _read_on(self) -> bool:
        """Read requests: at once if tasks wait, else when some come or the turn of one does."""
        began = time.monotonic()
        seconds = _READ_SECONDS
        if self._turns:
            # If no other thread could lead, those that serve take the tasks.
            due = 0.0 if began >= self._read_by else None if self._is_full() else self._turns.seconds()
            seconds = _READ_SECONDS if due is None else min(due, _READ_SECONDS)
        goes_on = self._read(seconds)
        ended = time.monotonic()
        self._read_by = ended + max(_UNREAD_SECONDS, 0.0 if seconds else (ended - began) * _READ_SHARE)
        return goes_on

    def _is_full(self) -> bool:
        """Tell whether no other thread could lead. The leader then only reads, and others take its tasks."""
        return self._alive > self._limit

    def _leave(self) -> None:
        self._alive -= 1
        self._left.notify_all()

    def _end(self) -> None:
        with self._lock:
            self._ended.set()
            self._serving.set()
            self._leave()
