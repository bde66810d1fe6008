"""A transport of paramiko's with channels of ours, and bounds on what a VM may send.

Paramiko accepts data without limit, and what a job's programs print comes through it. Our buffers copy little, and
nothing follows the end of a channel.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko import SSHException
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import cMSG_CHANNEL_OPEN, cMSG_CHANNEL_WINDOW_ADJUST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.vms.provider import SshSocket
    from actors.vms.ssh.stream import Deadline


_SESSION = "session"
_SOCKET = "direct-streamlocal@openssh.com"
_LOOK_SECONDS = 0.1
"""A pause between looks at the connection while an answer is awaited, as in paramiko."""


class Transport(paramiko.Transport):
    """A transport that opens channels of our class, to commands and to sockets of the peer.

    The latter are an extension of OpenSSH's. Paramiko's `open_channel`, which knows neither, does the same for others.
    """

    packetizer: Any
    _channels: Any
    _next_channel: Callable[[], int]
    _send_user_message: Callable[[paramiko.Message], None]

    def __init__(self, connected: Any, packet_bytes: int) -> None:  # noqa: ANN401 - what acts as a socket
        super().__init__(connected, default_max_packet_size=packet_bytes)
        # It would time the handshake by a thread of its own. `Connection` closes the transport at its deadline.
        self.packetizer.start_handshake = lambda _seconds: None

    def open_command(self, deadline: Deadline) -> Channel:
        """Open a channel for a command. Raises SSHException, or OSError of the connection."""
        return self._open(_SESSION, b"", deadline)

    def open_socket(self, path: str, deadline: Deadline) -> Channel:
        """Open a channel to a listening socket in the VM. Raises SSHException, or OSError of the connection."""
        peer = paramiko.Message()
        peer.add_string(path)
        peer.add_string("")
        peer.add_int(0)
        return self._open(_SOCKET, peer.asbytes(), deadline)

    def _open(self, kind: str, details: bytes, deadline: Deadline) -> Channel:
        with self.lock:
            channel_id = self._next_channel()
            request = paramiko.Message()
            request.add_byte(cMSG_CHANNEL_OPEN)
            request.add_string(kind)
            request.add_int(channel_id)
            request.add_int(self.default_window_size)
            request.add_int(self.default_max_packet_size)
            request.add_bytes(details)
            channel: Any = Channel(channel_id)
            self._channels.put(channel_id, channel)
            self.channel_events[channel_id] = opened = threading.Event()
            self.channels_seen[channel_id] = True
            channel._set_transport(self)  # noqa: SLF001 - see above
            channel._set_window(self.default_window_size, self.default_max_packet_size)  # noqa: SLF001 - see above
            # Half of the window is read before the peer hears of it, not a tenth: each message costs CPU time.
            channel.in_window_threshold = self.default_window_size // 2
            limit_unread(channel)
        self._send_user_message(request)
        # Nobody sets the event of a connection that was closed, or that ended before the event was there.
        while self.is_active() and not opened.wait(_LOOK_SECONDS) and deadline.remaining() != 0:
            pass
        if opened.is_set() and self._channels.get(channel_id) is not None:
            return channel  # type: ignore[no-any-return]
        raise self.get_exception() or paramiko.SSHException("no channel was opened in time, or the connection ended")


_Ends = tuple[paramiko.Message | None, paramiko.Message | None]
_NONE: _Ends = (None, None)


class Channel(paramiko.Channel):
    """A channel whose input and whose close are sent in order, by any threads.

    Paramiko makes a message under the channel's lock and sends it without, so that the close by another thread, as the
    answer to one from the VM, could overtake it. OpenSSH then ends the whole connection, with all other commands.
    """

    in_buffer: BoundedBuffer  # see `limit_unread`
    lock: threading.Lock
    remote_chanid: int
    timeout: float | None
    _check_add_window: Callable[[int], int]

    def __init__(self, channel_id: int) -> None:
        super().__init__(channel_id)
        self._senders = 0
        self._ends = _NONE

    def shutdown(self, how: int) -> None:
        """End the input, the output or both, as of a socket."""
        with self._sending():
            super().shutdown(how)

    def _send(self, s: bytes, m: paramiko.Message) -> int:
        with self._sending():
            sent: int = super()._send(s, m)  # type: ignore[misc] # typeshed lacks it
        return sent

    def receive(self) -> list[bytes]:
        """Return all that has come, in pieces; ``recv`` would join a copy of them. Wait for some as it does.

        None come after the end. Raises TimeoutError.
        """
        pieces = self.in_buffer.take(self.timeout)
        read = self._check_add_window(sum(map(len, pieces)))
        if read > 0:
            message = paramiko.Message()
            message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
            message.add_int(self.remote_chanid)
            message.add_int(read)
            self._transport_send(message)
        return pieces

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Let the block send messages. If the channel is closed meanwhile, the last such block sends that."""
        with self.lock:
            self._senders += 1
        try:
            yield
        finally:
            with self.lock:
                self._senders -= 1
                ends = _NONE
                if not self._senders:
                    ends, self._ends = self._ends, _NONE
            for message in ends:
                if message is not None:
                    self._transport_send(message)

    def _close_internal(self) -> _Ends:
        """Return what ends the channel, for the caller to send. The lock is held."""
        ends: _Ends = super()._close_internal()  # type: ignore[misc] # typeshed lacks it
        if not self._senders or ends == _NONE:
            return ends
        self._ends = ends
        return _NONE

    def _transport_send(self, message: paramiko.Message) -> None:
        transport: Any = self.transport
        transport._send_user_message(message)  # noqa: SLF001 - as paramiko's channels do


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
