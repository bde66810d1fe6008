"""The sshds of a VM, one for each connection of the service."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import os
import select
import struct
import time

from .outer import SEND_BYTES, SSHD, SSHD_CONFIG

_COMMAND = (SSHD, "-i", "-f", SSHD_CONFIG)
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_OOM_SCORE = 995
_BACK_OFF_SECONDS = 0.05
_HANDED = 3
"""Descriptors of a message: standard input, standard output, and the program's socket."""


class Sshds:
    """The sshds of what comes at a socket: connections, or messages with the streams of one.

    In an engine's instance, a program has the service on its standard input and output. It hands over both, and a
    socket, which hangs up when their sshd has ended.
    """

    def __init__(self, arrivals: int, poll: select.poll) -> None:
        """Let ``poll`` wait for all that `attend` is to know."""
        self._arrivals = _socket.socket(fileno=arrivals)
        self._programs: dict[int, int] = {}
        """The sockets of programs that wait, by pidfds of their sshds."""

        self._poll = poll
        poll.register(arrivals, select.POLLIN)

    def attend(self, ready: int) -> None:
        """Note the end of an sshd, or start the next one.

        If there is no room for its process, refuse its streams.
        """
        if ready in self._programs:
            self._poll.unregister(ready)
            os.close(ready)
            os.close(self._programs.pop(ready))
            return
        try:
            if self._arrivals.type == _socket.SOCK_STREAM:
                self._accept()
            else:
                self._receive()
        except OSError:
            time.sleep(_BACK_OFF_SECONDS)

    def _accept(self) -> None:
        connection = _socket.socket(fileno=self._arrivals._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - socket.py would cost 4 ms
        try:
            connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, SEND_BYTES)
            _start(connection.fileno(), connection.fileno())
        finally:
            connection.close()

    def _receive(self) -> None:
        space = _socket.CMSG_SPACE(_HANDED * 4)
        _, rights, _, _ = self._arrivals.recvmsg(1, space, _socket.MSG_CMSG_CLOEXEC)
        handed = [number for _, _, sent in rights for (number,) in struct.iter_unpack("i", sent)]
        try:
            if len(handed) == _HANDED:  # without room for all, fewer come
                sshd = os.pidfd_open(_start(*handed[:2]))
                self._poll.register(sshd, select.POLLIN)
                self._programs[sshd] = handed.pop()
        finally:
            for each in handed:
                os.close(each)


def _start(stdin: int, stdout: int) -> int:
    """Start an sshd; return its id. Raises OSError if there is no room for it, or it has ended."""
    standard = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)]
    default = (_signal.SIGCHLD,)
    pid = os.posix_spawn(SSHD, _COMMAND, _ENVIRONMENT, file_actions=standard, setsid=True, setsigdef=default)
    with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % _OOM_SCORE)  # above PID 1, whose end is that of the VM
    return pid
