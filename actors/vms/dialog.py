"""A program in a VM that somebody talks with: bytes in both directions as they come, at a terminal or not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms.stream import DROPPED, ConnectionLost

if TYPE_CHECKING:
    import paramiko

__all__ = ["Dialog", "Window"]

_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Window:
    """A terminal as the program is to believe it has one: its kind, as in ``TERM``, and its size in characters."""

    term: str
    columns: int
    rows: int


class Dialog:
    """One program. Of two threads at most one says something to it; the other hears it out."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def fileno(self) -> int:
        """Return what becomes readable when `hear` has something to hand on."""
        return self._channel.fileno()

    def hear(self, stdout: int, stderr: int) -> int | None:
        """Write to two descriptors what the program has said since; return its exit code once it has ended.

        Raises ConnectionLost where the VM went, or the connection did.
        """
        while self._channel.recv_ready():
            _write(stdout, self._channel.recv(_BLOCK))
        while self._channel.recv_stderr_ready():
            _write(stderr, self._channel.recv_stderr(_BLOCK))
        if self._channel.recv_ready() or not (self._channel.eof_received or self._channel.closed):
            return None
        exit_code = self._channel.recv_exit_status()
        if exit_code < 0:
            message = "the connection to the VM is gone, and the VM with it where its time was over"
            raise ConnectionLost(message)
        return exit_code

    def say(self, text: bytes) -> bool:
        """Give the program input, or its end where that is empty; False once it takes none. Blocks until it has it."""
        try:
            if text:
                self._channel.sendall(text)
            else:
                self._channel.shutdown_write()
        except DROPPED:
            return False
        return bool(text)

    def resize(self, columns: int, rows: int) -> None:
        """Tell the program that its terminal has another size."""
        self._channel.resize_pty(columns, rows)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
