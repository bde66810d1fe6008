"""Confined processes: work on a stranger's bytes, with bounds of CPU time, memory, files and time.

A parser that a hostile file makes slow, or crashes, costs a process and never the service, whose threads share one
interpreter. The processes are forks of a small one, the zygote, which starts at the first use and ends with the
service: a fork takes a millisecond or two, a new interpreter fifty.

A fork copies each page that it first writes to, which takes a short work longer than the work itself. So where a module
has a function `warm`, which does such a work on bytes of its own, a fork that has called it waits for the next one.

Of each owner, such as an organization, one work is done at a time: its works wait for each other, and nobody else
for them.
"""

from __future__ import annotations

import array
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from gc import freeze
from importlib import import_module
from time import process_time
from typing import TYPE_CHECKING, Any, TypeVar, cast

from storage.data_classes import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

_Result = TypeVar("_Result")
_OPEN_FILES = 64
_MOST_ANSWER = 64 << 20
_LONGEST_NAME = 200
_AT_ONCE = 4
_NICE = 10
_HEAD = 8
"""The bytes of a message's length, which comes first."""

_PIECE = 1 << 20
_WARM = "warm"
_WARM_SECONDS = 600.0
"""The time that a warm fork waits after the last work of any kind; it holds 5 MB."""

_RESULT, _PART, _EXPECTED, _FAILED = "result", "part", "expected", "failed"


class WorkFailed(Exception):
    """A work took more than its bounds, or its process ended; the message says which."""


@immutable
class Bounds:
    """The most that one work may take: CPU time, memory beyond that of an idle process, and time in all."""

    cpu_seconds: int
    memory_bytes: int
    seconds: int


class Confinement:
    """Does works in confined processes, each with its bounds. Safe in any thread.

    A work is a function at the top of a module, whose arguments and result JSON can hold. The zygote imports its module
    as it first comes, so that no later fork has to, and what `warm` imports after that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._turns: dict[str, _Turn] = {}

    def run(
        self,
        work: Callable[..., _Result],
        *arguments: object,
        bounds: Bounds,
        owner: str,
        errors: tuple[type[Exception], ...] = (),
    ) -> _Result:
        """Return what a function returns for these arguments, in the owner's turn.

        Raises one of ``errors`` with its message if the function raises it, and WorkFailed.
        """
        with closing(self._messages(work, arguments, bounds, owner, errors)) as messages:
            _, result = next(messages)
            return cast("_Result", result)

    def each(
        self,
        work: Callable[..., Iterator[_Result]],
        *arguments: object,
        bounds: Bounds,
        owner: str,
        errors: tuple[type[Exception], ...] = (),
        rest: Bounds | None = None,
    ) -> Iterator[_Result]:
        """Yield what a generator function yields, as `run` returns a result.

        So a long result comes in parts: no other thread runs while JSON is decoded, 30 ms for two megabytes at once.
        What follows the first part has the bounds of ``rest``, if given, but at most what is left of the others.
        """
        with closing(self._messages(work, arguments, bounds, owner, errors, rest)) as messages:
            for kind, value in messages:
                if kind != _PART:
                    return
                yield cast("_Result", value)

    def _messages(
        self,
        work: Callable[..., object],
        arguments: tuple[object, ...],
        bounds: Bounds,
        owner: str,
        errors: tuple[type[Exception], ...],
        rest: Bounds | None = None,
    ) -> Generator[tuple[str, object]]:
        """Yield the parts and the result of a work in the owner's turn, or raise its error."""
        request = {
            "module": work.__module__,
            "name": work.__qualname__,
            "arguments": arguments,
            "errors": [each.__name__ for each in errors],
            "bounds": [[each.cpu_seconds, each.memory_bytes, each.seconds] for each in (bounds, rest) if each],
        }
        with self._turn(owner), self._room:
            for answer in self._answers(work.__module__, json.dumps(request).encode()):
                kind, value = json.loads(answer)
                if kind == _EXPECTED:
                    name, told = value
                    raise next(each for each in errors if each.__name__ == name)(*told)
                if kind == _FAILED:
                    raise WorkFailed(value)
                yield kind, value
                if kind == _RESULT:
                    return
                bounds = rest or bounds
        raise WorkFailed(
            f"it took more than {bounds.cpu_seconds} s of CPU time, {bounds.seconds} s in all, or"
            f" {bounds.memory_bytes >> 20} MiB of memory"
        )

    def close(self) -> None:
        """End the zygote and what it forked. Idempotent; a later work starts another."""
        with self._lock:
            zygote, control = self._zygote, self._control
            self._zygote = self._control = None
        if control is not None:
            control.close()
        if zygote is not None:
            zygote.wait()

    @contextmanager
    def _turn(self, owner: str) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(owner, _Turn())
            turn.waiting += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.waiting -= 1
                if not turn.waiting:
                    del self._turns[owner]

    def _answers(self, module: str, request: bytes) -> Iterator[bytes]:
        """Yield what a fork of the zygote answers, until it ends. Raises WorkFailed if it is too much."""
        here, there = socket.socketpair()
        with here, there:
            self._send(there, module)
            there.close()
            left = _MOST_ANSWER
            with suppress(ConnectionError):
                here.sendall(len(request).to_bytes(_HEAD, "big") + request)
                while answer := _read(here, left):
                    left -= len(answer)
                    yield answer

    def _send(self, connection: socket.socket, module: str) -> None:
        """Give the zygote a connection to fork for; start another zygote if it has ended."""
        with self._lock:
            if self._control is not None and _passed(self._control, connection, module):
                return
            if self._zygote is not None:
                self._zygote.kill()
                self._zygote.wait()
            self._control, self._zygote = _start_zygote()
            if not _passed(self._control, connection, module):
                raise WorkFailed("the process that works on untrusted files cannot be started")


class _Turn:
    """The works of an owner, done and waiting."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting = 0


def _start_zygote() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({theirs.fileno()})"
        environment: Mapping[str, str] = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        zygote = subprocess.Popen(
            [sys.executable, "-I", "-c", program],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # not a session: the kernel would give that as much CPU time as all of the service
        )
    return ours, zygote


def _passed(control: socket.socket, connection: socket.socket, module: str) -> bool:
    handles = array.array("i", [connection.fileno()])
    try:
        control.sendmsg([module.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)])
    except OSError:
        return False
    return True


def _read(connection: socket.socket, most_bytes: int = _MOST_ANSWER) -> bytes:
    """Return a message, which follows its length; nothing if it ends before. Raises WorkFailed."""
    head = connection.recv(_HEAD, socket.MSG_WAITALL)
    size = int.from_bytes(head, "big")
    if size > most_bytes:
        raise WorkFailed(f"its result has more than {_MOST_ANSWER >> 20} MiB")
    read = bytearray()
    while len(read) < size:
        part = connection.recv(min(size - len(read), _PIECE))
        if not part:
            return b""
        read += part
    return bytes(read)


def _write(connection: socket.socket, kind: str, value: object) -> None:
    answer = json.dumps((kind, value)).encode()
    connection.sendall(len(answer).to_bytes(_HEAD, "big") + answer)


def serve(control_handle: int) -> None:
    """Fork for each connection that comes, and end with all forks when the service is gone."""
    control = socket.socket(fileno=control_handle)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    waiting: dict[str, socket.socket] = {}
    while True:
        control.settimeout(_WARM_SECONDS if waiting else None)
        try:
            module, connection = _received(control)
        except TimeoutError:
            _close_all(waiting)
            continue
        if connection is None:
            os.killpg(0, signal.SIGKILL)  # itself and its forks, whose works nobody waits for
            return
        with connection:
            imported = import_module(module)
            warm = waiting.pop(module, None)
            if warm is None or not _passed(warm, connection, module):
                _fork(control, waiting, partial(_work, connection))
            if warm is not None:
                warm.close()
        if hasattr(imported, _WARM):
            if warm is None:
                imported.warm()  # so that forks find what it imports
                freeze()
            waiting[module] = _warm_fork(control, waiting, imported.warm)


def _received(control: socket.socket) -> tuple[str, socket.socket | None]:
    """Return the name of a module, and the connection of a work; none at the end."""
    size = socket.CMSG_SPACE(array.array("i").itemsize)
    module, ancillary, _, _ = control.recvmsg(_LONGEST_NAME, size, socket.MSG_CMSG_CLOEXEC)
    handles = array.array("i", b"".join(each[2] for each in ancillary))
    return module.decode(), socket.socket(fileno=handles[0]) if handles else None


def _fork(control: socket.socket, waiting: dict[str, socket.socket], work: Callable[[], None]) -> None:
    if os.fork() == 0:
        control.close()
        _close_all(waiting)
        with suppress(OSError):  # the unit of systemd forbids it
            os.nice(_NICE)
        work()
        os._exit(0)


def _close_all(waiting: dict[str, socket.socket]) -> None:
    """Let forks that wait end."""
    for each in waiting.values():
        each.close()
    waiting.clear()


def _warm_fork(control: socket.socket, waiting: dict[str, socket.socket], warm: Callable[[], None]) -> socket.socket:
    """Fork for the next work of a module; return the socket that takes its connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def wait() -> None:
        ours.close()
        warm()
        _, connection = _received(theirs)
        theirs.close()
        if connection is not None:
            with connection:
                _work(connection)

    with theirs:
        _fork(control, waiting, wait)
    return ours


def _work(connection: socket.socket) -> None:
    """Do what a connection asks for, within its bounds, and answer."""
    asked = _read(connection)
    if not asked:
        return
    request = json.loads(asked)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bounds = [Bounds(*each) for each in request["bounds"]]
    with suppress(BrokenPipeError):  # of a service that is gone, or waits no more
        _write(connection, *_outcome(request, bounds, connection))


def _bound(bounds: Bounds) -> None:
    """Bound what this process takes from now on; an earlier bound that is lower stays."""
    signal.setitimer(signal.ITIMER_REAL, bounds.seconds)  # its signal ends the process, whatever it does
    for kind, most in (
        (resource.RLIMIT_CPU, int(process_time()) + bounds.cpu_seconds),
        (resource.RLIMIT_AS, _memory_in_use() + bounds.memory_bytes),
    ):
        before = resource.getrlimit(kind)[1]
        allowed = most if before == resource.RLIM_INFINITY else min(most, before)
        resource.setrlimit(kind, (allowed, allowed))


def _outcome(request: dict[str, Any], bounds: list[Bounds], connection: socket.socket) -> tuple[str, object]:
    """Return how a work ended, with its result or the text of its error; its parts are sent as they come."""
    try:
        _bound(bounds[0])
        result = getattr(import_module(request["module"]), request["name"])(*request["arguments"])
        if not isinstance(result, Iterator):
            return _RESULT, result
        for part in result:
            _write(connection, _PART, part)
            if len(bounds) > 1:
                del bounds[0]
                _bound(bounds[0])
        return _RESULT, None
    except MemoryError:
        return _FAILED, f"it took more than {bounds[0].memory_bytes >> 20} MiB of memory"
    except Exception as error:  # noqa: BLE001 - the boundary of a work: the caller is told
        name = next((each.__name__ for each in type(error).__mro__ if each.__name__ in request["errors"]), None)
        return (_FAILED, f"{type(error).__name__}: {error}") if name is None else (_EXPECTED, [name, _told(error)])


def _told(error: Exception) -> list[object]:
    """Return what makes an error again: of an OSError its number and text, else its message."""
    return [error.errno, error.strerror] if isinstance(error, OSError) else [str(error)]


def _memory_in_use() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - of few imports, one less
        return int(file.read().split()[0]) * resource.getpagesize()
