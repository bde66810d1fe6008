"""An interactive program in a VM: a stream of bytes in both directions, with or without a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from actors.vms.ssh.errors import ConnectionLost
from actors.vms.ssh.stream import DISCONNECT_ERRORS
from storage import immutable

if TYPE_CHECKING:
    import paramiko

_CHUNK_BYTES = 1 << 16


@immutable
class Pty:
    """The terminal of a program: its kind, as in ``TERM``, and its size in characters."""

    term: str
    columns: int
    rows: int


class InteractiveSession:
    """One interactive program. Two threads may use it: one calls `send`, the other the rest."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def fileno(self) -> int:
        """Return a descriptor that is readable when `receive` has output."""
        return self._channel.fileno()

    def receive(self, stdout: int, stderr: int) -> int | None:
        """Copy the program's new output to two descriptors; return its exit code, or None while it runs.

        Raises ConnectionLost if the VM or the connection is gone.
        """
        while self._channel.recv_ready():
            _write(stdout, self._channel.recv(_CHUNK_BYTES))
        while self._channel.recv_stderr_ready():
            _write(stderr, self._channel.recv_stderr(_CHUNK_BYTES))
        if self._channel.recv_ready() or not (self._channel.eof_received or self._channel.closed):
            return None
        exit_code = self._channel.recv_exit_status()
        if exit_code < 0:
            message = "the connection to the VM is lost; a VM is also destroyed when its hold ends"
            raise ConnectionLost(message)
        return exit_code

    def send(self, text: bytes) -> bool:
        """Send input to the program; an empty ``text`` ends it. Blocks until all is sent.

        Returns False after the end of the input, and once the program takes no more.
        """
        try:
            if text:
                self._channel.sendall(text)
            else:
                self._channel.shutdown_write()
        except DISCONNECT_ERRORS:
            return False
        return bool(text)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the program's terminal."""
        self._channel.resize_pty(columns, rows)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
