"""Confined processes: work on a stranger's bytes, with bounds of CPU time, memory, files and time.

A parser that a hostile file makes slow, or crashes, costs a process and never the service, whose threads share one
interpreter. The processes are forks of a small one, the zygote, which starts at the first use and ends with the
service: a fork takes a millisecond or two, a new interpreter fifty.

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
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from storage.data_classes import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

_Result = TypeVar("_Result")
_OPEN_FILES = 64
_MOST_ANSWER = 64 << 20
_LONGEST_NAME = 200
_AT_ONCE = 4
_HEAD = 8
"""The bytes of a message's length, which comes first."""

_PIECE = 1 << 20
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
    as it first comes, so that no later fork has to.
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
    ) -> Iterator[_Result]:
        """Yield what a generator function yields, as `run` returns a result.

        So a long result comes in parts: no other thread runs while JSON is decoded, 30 ms for two megabytes at once.
        """
        with closing(self._messages(work, arguments, bounds, owner, errors)) as messages:
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
    ) -> Generator[tuple[str, object]]:
        """Yield the parts and the result of a work in the owner's turn, or raise its error."""
        request = {
            "module": work.__module__,
            "name": work.__qualname__,
            "arguments": arguments,
            "errors": [each.__name__ for each in errors],
            "bounds": [bounds.cpu_seconds, bounds.memory_bytes, bounds.seconds],
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
            start_new_session=True,
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
    size = socket.CMSG_SPACE(array.array("i").itemsize)
    while True:
        module, ancillary, _, _ = control.recvmsg(_LONGEST_NAME, size, socket.MSG_CMSG_CLOEXEC)
        if not module:
            os.killpg(0, signal.SIGKILL)  # itself and its forks, whose works nobody waits for
        import_module(module.decode())
        handles = array.array("i", b"".join(each[2] for each in ancillary))
        if os.fork() == 0:
            control.close()
            with socket.socket(fileno=handles[0]) as connection:
                _work(connection)
            os._exit(0)
        for handle in handles:
            os.close(handle)


def _work(connection: socket.socket) -> None:
    """Do what a connection asks for, within its bounds, and answer."""
    asked = _read(connection)
    if not asked:
        return
    request = json.loads(asked)
    cpu_seconds, memory_bytes, seconds = request["bounds"]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)  # its signal ends the process, whatever it does
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allowed = _memory_in_use() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    with suppress(OSError):  # the unit of systemd forbids it
        os.nice(10)
    with suppress(BrokenPipeError):  # of a service that is gone, or waits no more
        _write(connection, *_outcome(request, connection))


def _outcome(request: dict[str, Any], connection: socket.socket) -> tuple[str, object]:
    """Return how a work ended, with its result or the text of its error; its parts are sent as they come."""
    try:
        result = getattr(import_module(request["module"]), request["name"])(*request["arguments"])
        if not isinstance(result, Iterator):
            return _RESULT, result
        for part in result:
            _write(connection, _PART, part)
        return _RESULT, None
    except MemoryError:
        return _FAILED, f"it took more than {request['bounds'][1] >> 20} MiB of memory"
    except Exception as error:  # noqa: BLE001 - the boundary of a work: the caller is told
        name = next((each.__name__ for each in type(error).__mro__ if each.__name__ in request["errors"]), None)
        return (_FAILED, f"{type(error).__name__}: {error}") if name is None else (_EXPECTED, [name, _told(error)])


def _told(error: Exception) -> list[object]:
    """Return what makes an error again: of an OSError its number and text, else its message."""
    return [error.errno, error.strerror] if isinstance(error, OSError) else [str(error)]


def _memory_in_use() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - of few imports, one less
        return int(file.read().split()[0]) * resource.getpagesize()
