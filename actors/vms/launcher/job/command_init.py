"""The init of a job's command: PID 1 of a PID namespace of the command's own, below the job's.

It signals the command's processes on request, and they end with it. No descriptor is sent to it: the kernel counts
those on their way by the user id that all VMs share.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import os
import struct

from ..kernel import CLONE_NEWPID, close_all_but, ignore_children, join_descriptor, set_dumpable, unshare

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

_READY, _JOINED, _ALL_DEAD = b"ready", b"joined", b"dead"
_MESSAGE_BYTES = 1024
_CREDENTIALS = struct.Struct("3i")


class CommandInit:
    """The init of a command, as the supervisor has it.

    ``word`` is a descriptor on which its word comes that all are dead; ``pidfd`` is that of its process.
    """

    def __init__(self) -> None:
        """Make the socket to it, for the process that will fork it."""
        self._socket, self._theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_PASSCRED, 1)  # tells the sender's id as it is here
        self.word, self.pidfd = self._socket.fileno(), -1

    def fork(self) -> None:
        """Start it, in the job's PID 1. An error goes to `join`."""
        try:
            unshare(CLONE_NEWPID)
            if os.fork() == 0:
                _run(self._theirs)
        except OSError as error:
            self._theirs.send(str(error).encode())

    def close_theirs(self) -> None:
        """Leave its end of the socket to the process that will fork it."""
        self._theirs.close()

    def join(self) -> None:
        """Let the next child of this process be in its PID namespace. Raises OSError."""
        message, credentials, _, _ = self._socket.recvmsg(_MESSAGE_BYTES, _socket.CMSG_SPACE(_CREDENTIALS.size))
        if message != _READY:
            raise OSError(message.decode() or "the command's init was killed")
        self.pidfd = os.pidfd_open(_CREDENTIALS.unpack(credentials[0][2])[0])
        join_descriptor(self.pidfd, CLONE_NEWPID)
        self._socket.send(_JOINED)

    def terminate_all(self) -> None:
        """Let it send TERM to all processes of its namespace."""
        self._order(_signal.SIGTERM)

    def kill_all(self) -> None:
        """Let it kill all processes of its namespace, and end."""
        self._order(_signal.SIGKILL)

    def all_dead(self) -> bool:
        """Take its word that all are dead; False if it was killed before it gave it."""
        try:
            return self._socket.recv(_MESSAGE_BYTES) == _ALL_DEAD
        except ConnectionResetError:
            return False

    def kill(self) -> None:
        """Kill it, so that the kernel kills all processes of its namespace, whatever they do."""
        try:
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGKILL)
        except ProcessLookupError:  # it has just ended
            return

    def close(self) -> None:
        """Close the descriptors."""
        self._socket.close()
        os.close(self.pidfd)

    def _order(self, number: int) -> None:
        try:
            self._socket.send(bytes([number]))
        except ConnectionError:  # it was killed
            return


def _run(service: _socket.socket) -> NoReturn:
    try:
        ignore_children()
        close_all_but(service.fileno())
        set_dumpable(dumpable=True)  # so that the supervisor may join its namespace; no process of the job runs yet
        service.send(_READY)
        service.recv(_MESSAGE_BYTES)
        set_dumpable(dumpable=False)
        while order := service.recv(_MESSAGE_BYTES):
            _signal_all(order[0])
            if order[0] == _signal.SIGKILL:
                _await_all()
                service.send(_ALL_DEAD)
                break
    finally:
        os._exit(0)


def _signal_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:  # nothing runs
        return


def _await_all() -> None:
    try:
        os.waitpid(-1, 0)  # the kernel reaps them, so this waits for the last
    except ChildProcessError:
        return
