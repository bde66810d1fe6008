"""A program that runs in a VM, as the host sees it: its output, input and end.

A command is a stream of its output, with or without input; an interactive one is a stream of bytes in both directions,
with or without a terminal.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, Self

import paramiko

from actors.vms.ssh.errors import CommandTimeout, ConnectionLost, OutputTooLong
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from storage import Clock


_CHUNK_BYTES = 1 << 20
_STDIN_CHUNK_BYTES = 1 << 16
MAX_STDERR_BYTES = 1 << 16
_PACKET_BYTES = (1 << 15) - 64
"""The most data that a packet of paramiko to OpenSSH has."""

DISCONNECT_ERRORS = (paramiko.SSHException, OSError, EOFError)
"""Exceptions of paramiko when the peer is gone or a channel is closed."""


@immutable
class Completed:
    """A command that ended by itself; ``stderr`` is its last 64 KiB."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Deadline:
    """A deadline some seconds from now; with None there is none."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self.seconds = seconds or 0.0
        self._clock = clock
        self._end = None if seconds is None else clock.monotonic() + seconds

    def renewed(self, seconds: float) -> Deadline:
        """Return a deadline some seconds from now, by the same clock."""
        return Deadline(self._clock, seconds)

    def remaining(self) -> float | None:
        """Return the seconds left, or None if there is no deadline."""
        return None if self._end is None else max(0.0, self._end - self._clock.monotonic())


class Stream:
    """The stdout of a running command as a stream of chunks.

    ``exit_code`` and ``stderr`` (its last 64 KiB) are set at its end. One thread iterates; any other may close.
    """

    def __init__(self, channel: paramiko.Channel, deadline: Deadline, stdin: bytes | Iterable[bytes] | None) -> None:
        self.exit_code = -1
        self.stderr = b""
        self._channel = channel
        self._deadline = deadline
        self._closed = False
        self._stdin_failure: Exception | None = None
        # Both buffers set it when data arrives. One may clear it while the other still has data, so wait for it only
        # after both were found empty.
        self._arrived = threading.Event()
        channel.in_buffer.set_event(self._arrived)
        channel.in_stderr_buffer.set_event(self._arrived)
        self._stdin_thread: threading.Thread | None = None
        if stdin is None:
            return
        chunks = _chunks(stdin)
        if (first := next(chunks, None)) is None:
            with suppress(*DISCONNECT_ERRORS):
                channel.shutdown_write()
        else:
            self._stdin_thread = threading.Thread(
                target=self._send_stdin, args=(first, chunks), name="ssh-stdin", daemon=True
            )
            self._stdin_thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks until the command has ended or ``close`` was called.

        Raises ConnectionLost if it ended without an exit status, CommandTimeout at the deadline.
        """
        channel = self._channel
        while True:
            ended = self.ended
            if channel.recv_stderr_ready():
                self.stderr = (self.stderr + _received(channel.recv_stderr))[-MAX_STDERR_BYTES:]
            elif channel.recv_ready():
                yield _received(channel.recv)
            elif ended:
                break
            elif not self._arrived.wait(self._deadline.remaining()):
                self._time_out()
        self._take_exit_code()

    def send(self, data: bytes) -> None:
        """Send input to a command that was started without; one that has ended takes none."""
        with suppress(*DISCONNECT_ERRORS):
            self._channel.settimeout(self._deadline.remaining())
            self._channel.sendall(data)

    @property
    def ended(self) -> bool:
        """True once the command has ended its output, or the channel is closed."""
        return bool(self._channel.eof_received) or self._channel.closed

    def renew(self, seconds: float) -> None:
        """Let the deadline be so many seconds from now."""
        self._deadline = self._deadline.renewed(seconds)

    def complete(self, limit: int) -> Completed:
        """Return the command's outcome once it has ended, whatever its exit code.

        Takes at most ``limit`` bytes of stdout, because a VM may send anything. Raises as iterating does, and
        OutputTooLong.
        """
        return completed(self, limit)

    def close(self) -> None:
        """Close the channel; the command in the VM gets no signal. Idempotent."""
        self._closed = True
        with suppress(*DISCONNECT_ERRORS):
            self._channel.close()

    def _take_exit_code(self) -> None:
        if not self._closed and not self._channel.status_event.wait(self._deadline.remaining()):
            self._time_out()
        if self._stdin_failure is not None:
            raise self._stdin_failure
        self.exit_code = self._channel.exit_status
        if self.exit_code == -1 and not self._closed:
            message = "a command in the VM ended without an exit status: the connection dropped or it was killed"
            raise ConnectionLost(message)
        if self._stdin_thread is not None:
            self.close()
            self._stdin_thread.join(1.0)

    def _time_out(self) -> None:
        # If the VM has stopped reading, close() blocks until the socket has room.
        closing = threading.Thread(target=self.close, name="ssh-close", daemon=True)
        closing.start()
        closing.join(1.0)
        message = f"a command in the VM did not end within {self._deadline.seconds:g} s"
        raise CommandTimeout(message)

    def _send_stdin(self, chunk: bytes | None, stdin: Iterator[bytes]) -> None:
        with suppress(*DISCONNECT_ERRORS):  # the command has ended and takes no more
            while chunk is not None:
                self._send_all(chunk)
                try:
                    chunk = next(stdin, None)
                except Exception as error:  # noqa: BLE001 - handed to the thread that reads the stream
                    self._stdin_failure = error
                    self._channel.close()
                    return
            self._channel.shutdown_write()

    def _send_all(self, data: bytes) -> None:
        """Send data packet by packet: `sendall` copies all that is left of it for each."""
        rest = memoryview(data)
        while rest:
            sent = self._channel.send(bytes(rest[:_PACKET_BYTES]))
            if not sent:
                message = "the command takes no more"
                raise OSError(message)
            rest = rest[sent:]


class Output(Protocol):
    """The output of a program, as far as `completed` needs it."""

    exit_code: int
    stderr: bytes

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks until the program has ended."""


def completed(output: Output, limit: int) -> Completed:
    """Return the outcome of a program once it has ended. Raises as its output does, and OutputTooLong."""
    chunks: list[bytes] = []
    size = 0
    for chunk in output:
        size += len(chunk)
        if size > limit:
            message = f"a command in the VM printed more than {limit} bytes"
            raise OutputTooLong(message)
        chunks.append(chunk)
    return Completed(output.exit_code, b"".join(chunks), output.stderr)


def _received(receive: Callable[[int], bytes]) -> bytes:
    """Return what a channel has received.

    Raises ConnectionLost if the message to the VM that there is room again cannot be sent.
    """
    try:
        return receive(_CHUNK_BYTES)
    except DISCONNECT_ERRORS as error:
        message = "the connection to the VM dropped in the middle of a command's output"
        raise ConnectionLost(message) from error


def _chunks(stdin: bytes | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(stdin, bytes):
        return (stdin[start : start + _STDIN_CHUNK_BYTES] for start in range(0, len(stdin), _STDIN_CHUNK_BYTES))
    return iter(stdin)


_READ_BYTES = 1 << 16


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
            _write(stdout, self._channel.recv(_READ_BYTES))
        while self._channel.recv_stderr_ready():
            _write(stderr, self._channel.recv_stderr(_READ_BYTES))
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
