"""What a VM may say at most over SSH. Paramiko takes all that comes, and whoever has run in a VM may be its sshd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paramiko import SSHException
from paramiko.buffered_pipe import BufferedPipe

if TYPE_CHECKING:
    import socket

    import paramiko

__all__ = ["BoundedSocket", "bound"]

_GREETING = b"SSH-"
_LONGEST_GREETING = 255
_LONGEST_PACKET = 1 << 18
"""Bytes, as OpenSSH has it."""


class BoundedSocket:
    """A socket for paramiko, which asks it for a packet as a whole. Raises SSHException for one that is too large.

    What comes first has to be a greeting, on a line of at most 255 bytes.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._greeting = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it is a socket in all else
        return getattr(self._socket, name)

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes, which is what is lacking of a packet."""
        if size > _LONGEST_PACKET:
            message = f"it announces a packet of {size} bytes"
            raise SSHException(message)
        data = self._socket.recv(size)
        if b"\n" not in self._greeting:
            self._greeting += data
            line = self._greeting.partition(b"\n")[0]
            if len(line) > _LONGEST_GREETING or line[: len(_GREETING)] != _GREETING[: len(line)]:
                message = "it does not greet as an SSH server"
                raise SSHException(message)
        return data


def bound(channel: paramiko.Channel) -> None:
    """Hold the other end of a channel that has brought nothing yet to the window that it is given."""
    channel.in_buffer = _Window(channel.in_window_size)
    channel.in_stderr_buffer = _Window(channel.in_window_size)


class _Window(BufferedPipe):  # type: ignore[type-arg] # typeshed's alone has one
    """What has come on a channel and was not read. Past its size it raises SSHException, which ends the connection."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def feed(self, data: bytes | str) -> None:
        if len(self) + len(data) > self._size:
            message = "it sends more than it was asked for"
            raise SSHException(message)
        super().feed(data)
