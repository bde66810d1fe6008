"""A websocket of the engine on a connection of its own, without a thread: its calls never wait."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

if TYPE_CHECKING:
    from websockets.typing import BytesLike

_BLOCK_BYTES = 1 << 17
"""Bytes that are parsed at once: eight records of TLS or more, whose frames are cheaper together."""

_DATA = frozenset({Opcode.TEXT, Opcode.BINARY})
_STREAM = _DATA | {Opcode.CONT}
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class WebSocket:
    """A stream of bytes in messages, of which an empty one ends the stream. Safe in any thread.

    The engine's pings get no answer: it waits for none, and one that came after it has closed would make the kernel
    drop what is yet unread.
    """

    def __init__(self, connected: socket.socket, path: str) -> None:
        """Open a websocket within the connection's time-out. Raises OSError and WebSocketException."""
        self.ended = False
        self.descriptor = connected.fileno()
        self._socket = connected
        self._lock = threading.Lock()
        self._protocol = ClientProtocol(parse_uri(f"ws://engine{path}"), max_size=None)
        self._unsent = memoryview(b"")
        self._protocol.send_request(self._protocol.connect())
        connected.sendall(b"".join(self._protocol.data_to_send()))
        while self._protocol.state is State.CONNECTING and self._protocol.handshake_exc is None:
            if block := connected.recv(_BLOCK_BYTES):
                self._protocol.receive_data(block)
            else:
                self._protocol.receive_eof()
        if self._protocol.handshake_exc is not None:
            raise self._protocol.handshake_exc
        self._early = self._taken()
        connected.settimeout(0)

    def receive(self) -> bytes | None:
        """Return what has come of the stream; nothing at its end, None if nothing has come yet."""
        with self._lock:
            taken, self._early = self._early, []
            while not taken and not self.ended:
                if block := self._read():
                    self._protocol.receive_data(block)
                    taken = self._taken()
                elif not self.ended:
                    return None
            return b"".join(taken)

    def put(self, data: bytes) -> None:
        """Take data to send, unless what was taken before is not sent yet; nothing ends the stream."""
        with self._lock:
            if not self._unsent:
                send = self._protocol.send_binary if data else self._protocol.send_text
                send(data)
                self._unsent = memoryview(b"".join(self._protocol.data_to_send()))

    def flush(self) -> bool:
        """Send what can be sent now; tell whether that was all. Raises BrokenPipeError."""
        with self._lock:
            while self._unsent:
                if self.ended:
                    raise BrokenPipeError
                try:
                    self._unsent = self._unsent[self._socket.send(self._unsent) :]
                except _NOT_NOW:
                    return False
                except OSError as error:
                    self.ended = True
                    raise BrokenPipeError from error
            return True

    def hang_up(self) -> None:
        """End the stream, and wake who waits for the descriptor."""
        with self._lock:
            self.ended = True
            with suppress(OSError):  # it has ended or is closed
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up and close the connection. Idempotent."""
        self.hang_up()
        with self._lock:
            self._socket.close()

    def _read(self) -> bytearray:
        """Read what has come, and note if the connection has ended."""
        block, size = bytearray(_BLOCK_BYTES), 0
        try:
            while size < _BLOCK_BYTES and not self.ended:
                received = self._socket.recv_into(memoryview(block)[size:])
                size += received
                self.ended = received == 0
        except _NOT_NOW:
            pass
        except OSError:
            self.ended = True
        del block[size:]
        return block

    def _taken(self) -> list[BytesLike]:
        """Return what has come of messages up to the stream's end, and note that."""
        taken = []
        for event in self._protocol.events_received():
            if not isinstance(event, Frame) or event.opcode not in _STREAM:
                continue
            if event.data:
                taken.append(event.data)
            elif event.fin and event.opcode in _DATA:
                # A sender may split a message: what follows its first frame is as much of the stream, and may be empty.
                self.ended = True
                break
        self._protocol.data_to_send()
        self.ended = self.ended or self._protocol.state is not State.OPEN
        return taken
