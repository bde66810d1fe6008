"""A connection to a socket in a VM, through sshd and without a process of its own there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from actors.vms.ssh.errors import CommandTimeout, ConnectionLost
from actors.vms.ssh.stream import DISCONNECT_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import paramiko

    from actors.vms.ssh.stream import Deadline

__all__ = ["VmSocket"]

_CHUNK_BYTES = 1 << 21
"""All that a channel holds unread."""

_LINE_BYTES = 1 << 12


class VmSocket:
    """An open connection to a socket in the VM: what is sent and what comes, in lines and blocks.

    Raises ConnectionLost when the other end or the connection is gone, CommandTimeout after ``deadline``. One thread
    uses it; any other may close it.
    """

    def __init__(self, channel: paramiko.Channel, deadline: Deadline) -> None:
        self._channel = channel
        self._deadline: Deadline | None = deadline
        self._received = b""
        self._at = 0

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
        while (end := self._received.find(b"\n", self._at)) < 0:
            if self.at_hand > _LINE_BYTES:
                raise _lost()
            self._received, self._at = self._received[self._at :] + self._receive(), 0
        line = self._received[self._at : end]
        self._at = end + 1
        return line

    def read_block(self, size: int) -> Iterator[memoryview]:
        """Yield the next ``size`` bytes, in chunks as they come, without a copy of them."""
        while size:
            if not self.at_hand:
                self._received, self._at = self._receive(), 0
            chunk = memoryview(self._received)[self._at : self._at + size]
            self._at += len(chunk)
            size -= len(chunk)
            yield chunk

    @property
    def at_hand(self) -> int:
        """The number of bytes that have come and were not read: reading those does not wait."""
        return len(self._received) - self._at

    def wait_without_limit(self) -> None:
        """Lift the deadline, for an answer that may take as long as it likes."""
        self._deadline = None

    def close(self) -> None:
        """Hang up. Idempotent."""
        with suppress(*DISCONNECT_ERRORS):
            self._channel.close()

    def _receive(self) -> bytes:
        try:
            self._channel.settimeout(self._deadline.remaining() if self._deadline else None)
            received = self._channel.recv(_CHUNK_BYTES)
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
