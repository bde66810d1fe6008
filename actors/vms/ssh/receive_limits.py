"""Bounds on what a VM may send over SSH, and buffers for it that copy little.

Paramiko accepts data without limit, and what a job's programs print comes through it.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from paramiko import SSHException
from paramiko.buffered_pipe import BufferedPipe

if TYPE_CHECKING:
    import threading

    import paramiko

    from actors.vms.provider import SshSocket

_GREETING = b"SSH-"
_MAX_GREETING_BYTES = 255
_MAX_PACKET_BYTES = 1 << 18
"""Bytes, as in OpenSSH."""


class BoundedSocket:
    """A socket for paramiko that refuses large packets and peers that do not speak SSH.

    Paramiko asks for a packet's head and then for its rest. Each call of a socket lets another thread run first, so
    what has arrived is received at once, for many packets. Raises SSHException for a packet of more than 256 KiB, and
    unless the first line is an SSH greeting of at most 255 bytes.
    """

    def __init__(self, connected: SshSocket) -> None:
        self._socket = connected
        self._greeting = b""
        self._received = memoryview(b"")
        self._closed = False
        """The name by which paramiko looks for it."""

        self.send = connected.send
        self.settimeout = connected.settimeout

    def recv(self, size: int) -> bytes:
        """Return up to ``size`` bytes, the missing part of a packet."""
        if size > _MAX_PACKET_BYTES:
            message = f"it sent a packet of {size} bytes, which is too large"
            raise SSHException(message)
        if not self._received:
            self._received = memoryview(self._socket.recv(_MAX_PACKET_BYTES))
        data, self._received = bytes(self._received[:size]), self._received[size:]
        if b"\n" not in self._greeting:
            self._greeting += data
            line = self._greeting.partition(b"\n")[0]
            if len(line) > _MAX_GREETING_BYTES or line[: len(_GREETING)] != _GREETING[: len(line)]:
                message = "it is not an SSH server"
                raise SSHException(message)
        return data

    def close(self) -> None:
        """Close it, and wake the thread that waits for data: closing alone would let it wait."""
        self._closed = True
        with suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def limit_unread(channel: paramiko.Channel) -> None:
    """Limit the unread data of a channel to its window, before any data arrives on it."""
    channel.in_buffer = BoundedBuffer(channel.in_window_size)
    channel.in_stderr_buffer = BoundedBuffer(channel.in_window_size)


class BoundedBuffer(BufferedPipe):  # type: ignore[type-arg] # generic only in typeshed
    """The unread data of a channel. Past its size it raises SSHException, which ends the connection."""

    _buffer: _Pieces
    _closed: bool
    _cv: threading.Condition
    _lock: threading.Lock

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._buffer = _Pieces()

    def feed(self, data: bytes | str) -> None:
        """Add what has come."""
        if len(self) + len(data) > self._size:
            message = "it sent more than was requested"
            raise SSHException(message)
        super().feed(data)

    def take(self, timeout: float | None) -> list[bytes]:
        """Take all that has come, in the pieces in which it came; wait for some. None comes after the end.

        Raises TimeoutError.
        """
        with self._lock:
            if not self._cv.wait_for(lambda: self._buffer or self._closed, timeout):
                raise TimeoutError
            return self._buffer.take()

    def _buffer_frombytes(self, data: bytes) -> None:
        self._buffer.append(data)

    def _buffer_tobytes(self, limit: int | None = None) -> bytes:
        return self._buffer.first(len(self._buffer) if limit is None else limit)


class _Pieces:
    """Bytes in the pieces in which they came, joined as they are read. An array would move what is left."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __delitem__(self, beginning: slice) -> None:
        """Delete the first bytes, as ``del pieces[:size]``, or all, as ``del pieces[:]``."""
        left = self._size if beginning.stop is None else min(beginning.stop, self._size)
        self._size -= left
        while left:
            piece = self._pieces.popleft()
            if len(piece) > left:
                self._pieces.appendleft(piece[left:])
            left -= min(left, len(piece))

    def append(self, piece: bytes) -> None:
        """Add a piece at the end."""
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)

    def take(self) -> list[bytes]:
        """Remove all pieces and return them."""
        pieces = list(self._pieces)
        self._pieces.clear()
        self._size = 0
        return pieces

    def first(self, size: int) -> bytes:
        """Return the first ``size`` bytes, without deleting them."""
        taken: list[bytes] = []
        for piece in self._pieces:
            if size <= 0:
                break
            taken.append(piece[:size])
            size -= len(piece)
        return b"".join(taken)
