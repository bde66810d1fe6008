"""The supervisor of a VM's job: it runs the one command, keeps its output, and ends it at its time-out.

It is in the VM's outer layer, where the job cannot see it, and lives as long as the VM, whether the service lives or
not. Its children are in the job's namespaces. Sessions of sshd ask it through a pipe, a line each: the id of the
session's process, a word, and a number (``guest/request.sh``).
"""

from __future__ import annotations

import _socket
import marshal
import os
import resource
import select
import struct

from . import job_namespaces
from .command import Command
from .kernel import await_children, set_title
from .outer import COMMAND_FOLDER, REQUESTS
from .output import Output
from .session import STDERR, STDOUT, Follower, Session

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MAX_DESCRIPTORS = 16
_SPEC_BYTES = 1 << 16
_LINE_BYTES = 4096
_NOT_STARTED, _FAILED = 66, 1


def run(control: int, offline: int, door: _socket.socket) -> NoReturn:
    """Take the job's disk from ``control``, enter the job's namespaces and serve requests until killed."""
    try:
        await_children()
        set_title(b"supervisor")
        listener = _socket.socket(fileno=control)
        connection = _socket.socket(fileno=listener._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        message, rights, _, _ = connection.recvmsg(_SPEC_BYTES, _socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4))
        spec = marshal.loads(message)  # noqa: S302 - from the service itself
        disk, log, *groups = (number for _, _, sent in rights for (number,) in struct.iter_unpack("i", sent))
        os.dup2(log, 2)
        os.close(log)
        try:
            requests = os.open(REQUESTS, os.O_RDWR | os.O_NONBLOCK)
            output = os.open(f"{COMMAND_FOLDER}/output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            namespaces = job_namespaces.enter(spec, disk, offline)
            connection.send(b"ready\n")
        except OSError as error:
            connection.send(f"failed {error}\n".encode())
            raise
        connection.close()
        listener.close()
        entrance = _Entrance(door, namespaces, groups, spec["limits"])
        _Supervisor(requests, Output(output), entrance, spec["limits"], groups).serve()
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(1)


class _Entrance:
    """The way for shells of the outer layer into the job's namespaces."""

    def __init__(
        self, door: _socket.socket, namespaces: list[int], groups: list[int], limits: list[tuple[int, int, int]]
    ) -> None:
        self._door = door
        self._namespaces = namespaces
        self._groups = groups
        self._limits = limits
        self._process = 0

    def admit(self, shell: int) -> int:
        """Limit a shell as the job; return the process whose namespaces it may enter. Raises OSError."""
        for group in self._groups:
            os.write(group, b"%d" % shell)
        for kind, soft, hard in self._limits:
            resource.prlimit(shell, kind, (soft, hard))
        self._process = self._process or job_namespaces.open_entrance(self._door, self._namespaces)
        return self._process


class _Supervisor:
    """The command and the sessions that wait for something of it."""

    def __init__(
        self,
        requests: int,
        output: Output,
        entrance: _Entrance,
        limits: list[tuple[int, int, int]],
        groups: list[int],
    ) -> None:
        self._requests = requests
        self._output = output
        self._entrance = entrance
        self._limits = limits
        self._groups = groups
        self._command: Command | None = None
        self._followers: dict[int, Follower] = {}
        self._terminating: list[Session] = []
        self._rest = b""

    def serve(self) -> NoReturn:
        """Handle requests, output and time-outs for ever."""
        while True:
            command = self._command
            poll = select.poll()
            poll.register(self._requests, select.POLLIN)
            if command is not None:
                for each in filter(lambda number: number >= 0, (command.pipe, command.keeper)):
                    poll.register(each, select.POLLIN)
            for stdout, follower in self._followers.items():
                poll.register(stdout, 0 if follower.idle else select.POLLOUT)
            ready = dict(poll.poll(command.milliseconds_left if command else None))
            if command is not None:
                self._attend(command, ready)
            if self._requests in ready:
                self._read_requests()

    def _attend(self, command: Command, ready: dict[int, int]) -> None:
        if command.pipe in ready:
            command.keep_output()
        if command.keeper in ready:
            command.reap()
            for session in self._terminating:
                session.answer(0)
            self._terminating.clear()
        command.enforce_times()
        for stdout, follower in list(self._followers.items()):
            if ready.get(stdout, 0) & ~select.POLLOUT:  # its session has ended
                self._followers.pop(stdout).session.close()
            else:
                self._copy_to(follower, command)

    def _read_requests(self) -> None:
        *lines, self._rest = (self._rest + os.read(self._requests, _LINE_BYTES)).split(b"\n")
        for line in lines:
            pid, word, number = line.split()
            try:
                session = Session(int(pid))
            except OSError:  # it has ended
                continue
            try:
                self._handle(session, word, int(number))
            except OSError as error:
                os.write(2, f"{error}\n".encode())
                session.answer(_FAILED)

    def _handle(self, session: Session, word: bytes, number: int) -> None:
        match word, self._command:
            case b"workspace", _:
                session.answer(0 if job_namespaces.mount_workspace(session.pidfd) else _FAILED)
            case b"enter", _:
                session.answer(self._entrance.admit(number))
            case b"start", command:
                if command is None:
                    self._start(session)
                else:
                    session.answer(0)
            case _, None:
                session.answer(_NOT_STARTED)
            case b"inspect", command:
                if command.exit_code is not None:
                    os.write(session.take(STDOUT), b"ended\n")
                session.answer(0)
            case b"follow", command:
                follower = Follower(session, number)
                self._followers[follower.stdout] = follower
                self._copy_to(follower, command)
            case b"terminate", command:
                self._terminate(session, command, number)
            case _:
                session.answer(_FAILED)

    def _start(self, session: Session) -> None:
        """Start the command whose spec is the session's stdin."""
        try:
            spec: dict[str, Any] = marshal.loads(session.read())  # noqa: S302 - from the service itself
            self._command = Command(spec, self._limits, self._groups, self._output)
        except (OSError, EOFError, ValueError) as error:  # no room for a process, or the spec was cut
            os.write(session.take(STDERR), f"{error}\n".encode())
            session.answer(_FAILED)
        else:
            session.answer(0)

    def _copy_to(self, follower: Follower, command: Command) -> None:
        try:
            if not follower.copy(self._output) or command.exit_code is None:
                return
            os.write(follower.session.take(STDERR), command.result)
        except OSError:  # its session has ended
            self._followers.pop(follower.stdout).session.close()
        else:
            self._followers.pop(follower.stdout).session.answer(0)

    def _terminate(self, session: Session, command: Command, grace: int) -> None:
        """End the command, KILL ``grace`` hundredths of a second after TERM; answer once it is dead."""
        if command.exit_code is not None:
            session.answer(0)
        else:
            self._terminating.append(session)
            command.end(grace / 100)
            command.enforce_times()
