"""Connections through sshd: to a socket in a VM, and from a port on the VM's loopback to the host."""

from __future__ import annotations

import io
import socket
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actors.vms.ssh.errors import CommandTimeout, ConnectionLost
from actors.vms.ssh.stream import DISCONNECT_ERRORS
from actors.vms.ssh.transport import limit_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import paramiko

    from actors.vms.ssh.stream import Deadline
    from actors.vms.ssh.transport import Channel


T = TypeVar("T")

_CHUNK_BYTES = 1 << 16
_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 10.0


@contextmanager
def remote_forward(transport: paramiko.Transport, target: tuple[str, int]) -> Iterator[int]:
    """Yield a port on the VM's loopback that is forwarded to ``target``; closed at the end.

    ``target`` is an address as this host sees it. Raises SSHException if the VM's sshd opens no port.
    """
    opened: list[Callable[[], None]] = []

    def accept(channel: paramiko.Channel, _origin: object, _server: object) -> None:
        limit_unread(channel)
        threading.Thread(target=_connect_both, args=(channel, target, opened), name="ssh-forward", daemon=True).start()

    port = transport.request_port_forward(_LOOPBACK, 0, accept)
    try:
        yield port
    finally:
        with suppress(*DISCONNECT_ERRORS):
            transport.cancel_port_forward(_LOOPBACK, port)
        for close in opened:
            with suppress(*DISCONNECT_ERRORS):
                close()


def _connect_both(channel: paramiko.Channel, target: tuple[str, int], opened: list[Callable[[], None]]) -> None:
    opened.append(channel.close)
    try:
        host = socket.create_connection(target, timeout=_CONNECT_SECONDS)
    except OSError:
        channel.close()
        return
    host.settimeout(None)

    def close_host() -> None:
        host.shutdown(socket.SHUT_RDWR)

    opened.append(close_host)
    back = threading.Thread(
        target=_copy, args=(host.recv, channel.sendall, channel.shutdown_write), name="ssh-forward", daemon=True
    )
    back.start()
    _copy(channel.recv, host.sendall, lambda: host.shutdown(socket.SHUT_WR))
    back.join()
    channel.close()
    host.close()


def _copy(read: Callable[[int], bytes], write: Callable[[bytes], object], end: Callable[[], object]) -> None:
    with suppress(*DISCONNECT_ERRORS):
        while chunk := read(_CHUNK_BYTES):
            write(chunk)
    with suppress(*DISCONNECT_ERRORS):
        end()


_LINE_BYTES = 1 << 12


class VmSocket:
    """An open connection to a socket in the VM: what is sent and what comes, in lines and blocks.

    Raises ConnectionLost when the other end or the connection is gone, CommandTimeout after ``deadline``. One thread
    uses it; any other may close it.
    """

    def __init__(self, channel: Channel, deadline: Deadline) -> None:
        self._channel = channel
        self._deadline: Deadline | None = deadline
        self._received: deque[memoryview] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        try:
            self._channel.settimeout(self._deadline.remaining() if self._deadline else None)
            self._channel.sendall(data)
        except TimeoutError as error:
            raise self._late() from error
        except DISCONNECT_ERRORS as error:
            raise _lost() from error

    def read_line(self) -> bytes:
        """Return the next line, without its end."""
        line = b""
        while len(line) <= _LINE_BYTES:
            piece = self._next()
            text, newline, _ = bytes(piece[:_LINE_BYTES]).partition(b"\n")
            line += text
            self._put_back(piece[len(text) + len(newline) :])
            if newline:
                return line
        raise _lost()

    def read_block(self, size: int) -> Iterator[memoryview]:
        """Yield the next ``size`` bytes in the pieces in which they come."""
        while size:
            piece = self._next()
            self._put_back(piece[size:])
            wanted = piece[:size]
            size -= len(wanted)
            yield wanted

    @property
    def at_hand(self) -> bool:
        """True if bytes have come that were not read: reading those does not wait."""
        return bool(self._received)

    def _next(self) -> memoryview:
        if not self._received:
            self._received.extend(map(memoryview, self._receive()))
        return self._received.popleft()

    def _put_back(self, rest: memoryview) -> None:
        if rest:
            self._received.appendleft(rest)

    def comes(self, seconds: float) -> bool:
        """Wait for bytes; False if none has come within so many seconds. Raises ConnectionLost at the end."""
        if self._received:
            return True
        try:
            self._channel.settimeout(seconds)
            received = self._channel.receive()
        except TimeoutError:
            return False
        except DISCONNECT_ERRORS as error:
            raise _lost() from error
        if not received:
            raise _lost()
        self._received.extend(map(memoryview, received))
        return True

    def wait_without_limit(self) -> None:
        """Lift the deadline, for an answer that may take as long as it likes."""
        self._deadline = None

    def as_port(self, number: int) -> PortSocket:
        """Return it as a connection to a port, after what was asked for that."""
        return PortSocket(self._channel, self._received, number)

    def close(self) -> None:
        """Hang up. Idempotent."""
        with suppress(*DISCONNECT_ERRORS):
            self._channel.close()

    def _receive(self) -> list[bytes]:
        try:
            self._channel.settimeout(self._deadline.remaining() if self._deadline else None)
            received = self._channel.receive()
        except TimeoutError as error:
            raise self._late() from error
        except DISCONNECT_ERRORS as error:
            raise _lost() from error
        if not received:
            raise _lost()
        return received

    def _late(self) -> CommandTimeout:
        self.close()
        seconds = self._deadline.seconds if self._deadline else 0.0
        return CommandTimeout(f"the VM did not answer within {seconds:g} s")


class PortSocket(io.RawIOBase):
    """An open connection to a port of the job, as a stream of bytes.

    One thread uses it; any other may close it.

    Raises TimeoutError after ``seconds`` without a byte. It ends, too, when the connection to the VM is lost.
    """

    def __init__(self, channel: Channel, received: deque[memoryview], number: int) -> None:
        super().__init__()
        self.number = number
        """The port."""

        self.seconds: float | None = None
        self._channel = channel
        self._received = received

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - what has a buffer
        """Read what has come into a buffer; wait for some. 0 at the end."""
        if not self._received:
            self._received.extend(map(memoryview, self._asked(self._channel.receive)))
        if not self._received:
            return 0
        piece = self._received.popleft()
        size = min(len(piece), len(buffer))
        buffer[:size] = piece[:size]
        if size < len(piece):
            self._received.appendleft(piece[size:])
        return size

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self._asked(lambda: self._channel.sendall(data))

    def close(self) -> None:
        """Hang up. Idempotent."""
        super().close()
        with suppress(*DISCONNECT_ERRORS):
            self._channel.close()

    def _asked(self, ask: Callable[[], T]) -> T:
        self._channel.settimeout(self.seconds)
        try:
            return ask()
        except TimeoutError:
            raise
        except DISCONNECT_ERRORS as error:
            message = "the connection to the VM dropped"
            raise ConnectionResetError(message) from error


def _lost() -> ConnectionLost:
    return ConnectionLost("the connection to the VM dropped in the middle of an answer")
