"""A connection to a socket in a VM, through sshd and without a process of its own there."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from actors.vms.ssh.errors import CommandTimeout, ConnectionLost
from actors.vms.ssh.stream import DISCONNECT_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms.ssh.channel import Channel
    from actors.vms.ssh.stream import Deadline

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

    def wait_without_limit(self) -> None:
        """Lift the deadline, for an answer that may take as long as it likes."""
        self._deadline = None

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


def _lost() -> ConnectionLost:
    return ConnectionLost("the connection to the VM dropped in the middle of an answer")
