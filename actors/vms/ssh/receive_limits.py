"""Bounds on what a VM may send over SSH.

Paramiko accepts data without limit, and what a job's programs print comes through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paramiko import SSHException
from paramiko.buffered_pipe import BufferedPipe

if TYPE_CHECKING:
    import socket

    import paramiko

__all__ = ["BoundedSocket", "limit_unread"]

_GREETING = b"SSH-"
_MAX_GREETING_BYTES = 255
_MAX_PACKET_BYTES = 1 << 18
"""Bytes, as in OpenSSH."""


class BoundedSocket:
    """A socket for paramiko that refuses large packets and peers that do not speak SSH.

    Paramiko asks for each packet as a whole. Raises SSHException for a packet of more than 256 KiB, and unless the
    first line is an SSH greeting of at most 255 bytes.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._greeting = b""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a socket otherwise
        return getattr(self._socket, name)

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes, the missing part of a packet."""
        if size > _MAX_PACKET_BYTES:
            message = f"it sent a packet of {size} bytes, which is too large"
            raise SSHException(message)
        data = self._socket.recv(size)
        if b"\n" not in self._greeting:
            self._greeting += data
            line = self._greeting.partition(b"\n")[0]
            if len(line) > _MAX_GREETING_BYTES or line[: len(_GREETING)] != _GREETING[: len(line)]:
                message = "it is not an SSH server"
                raise SSHException(message)
        return data


def limit_unread(channel: paramiko.Channel) -> None:
    """Limit the unread data of a channel to its window, before any data arrives on it."""
    channel.in_buffer = _BoundedBuffer(channel.in_window_size)
    channel.in_stderr_buffer = _BoundedBuffer(channel.in_window_size)


class _BoundedBuffer(BufferedPipe):  # type: ignore[type-arg] # generic only in typeshed
    """The unread data of a channel. Past its size it raises SSHException, which ends the connection."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def feed(self, data: bytes | str) -> None:
        if len(self) + len(data) > self._size:
            message = "it sent more than was requested"
            raise SSHException(message)
        super().feed(data)
