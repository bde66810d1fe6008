"""A program in a VM on this host whose streams are pipes, with the meaning of a `Stream` over SSH.

What the VM sends is a stranger's: it is read as it comes, in pieces of a bounded size, and nothing of it is a path.
Files of this host go in as their pages, which no program here copies. The VM gets the pipe, never the file.
"""

from __future__ import annotations

import fcntl
import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from actors.vms.ssh.errors import CommandTimeout, ConnectionLost
from actors.vms.ssh.files import FileBytes, OpenFile
from actors.vms.ssh.stream import MAX_STDERR_BYTES, Completed, completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.vms.provider import HostPipes
    from actors.vms.ssh.stream import Deadline


_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_MAX_STATUS_BYTES = 16
_LOOK_SECONDS = 0.1
"""A pause between looks at whether the connection was closed."""


class PipeStream:
    """The stdout of a running program as a stream of chunks, read by one thread.

    ``exit_code`` and ``stderr`` (its last 64 KiB) are set at its end. ``alive`` tells whether to go on.
    """

    def __init__(
        self,
        pipes: HostPipes,
        script: str,
        stdin: Iterable[bytes | FileBytes],
        deadline: Deadline,
        alive: Callable[[], bool],
    ) -> None:
        self.exit_code = -1
        self.stderr = b""
        self._deadline = deadline
        self._alive = alive
        self._status = b""
        self._output = b""
        self._input = _Input(iter(stdin))
        self._ours: list[int] = []
        theirs: list[int] = []
        try:
            for reads in (True, False, False, False):
                read, write = os.pipe2(os.O_CLOEXEC)
                theirs.append(read if reads else write)
                self._ours.append(write if reads else read)
                os.set_blocking(self._ours[-1], False)
                with suppress(OSError):  # the user has too much in pipes already: this one stays small
                    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            pipes.start(script, theirs)
        except BaseException:
            self.close()
            raise
        finally:
            for each in theirs:
                os.close(each)
        self._stdin, self._stdout, self._errors, self._result = self._ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield chunks until the program has ended.

        Raises ConnectionLost if it ended without an exit status, CommandTimeout at the deadline, and FileCut.
        """
        while self._stdout in self._ours or self._result in self._ours:
            for number in self._await():
                if number == self._stdin:
                    if not self._input.write_to(number):
                        self._end(number)
                elif not (data := self._read(number)):
                    self._end(number)
                elif number == self._stdout:
                    yield data
                elif number == self._errors:
                    self.stderr = (self.stderr + data)[-MAX_STDERR_BYTES:]
                else:
                    self._status = (self._status + data)[:_MAX_STATUS_BYTES]
        while self._errors in self._ours and (data := self._read(self._errors)):
            self.stderr = (self.stderr + data)[-MAX_STDERR_BYTES:]
        self.close()
        if not self._status.strip().isdigit():
            message = "a command in the VM ended without an exit status: the VM ended or it was killed"
            raise ConnectionLost(message)
        self.exit_code = int(self._status)

    def complete(self, limit: int) -> Completed:
        """Return the program's outcome once it has ended, as `Stream.complete` does."""
        return completed(self, limit)

    def close(self) -> None:
        """Close the pipes; the program in the VM gets no signal. Idempotent."""
        self._input.close()
        while self._ours:
            os.close(self._ours.pop())

    def _await(self) -> list[int]:
        """Wait until some pipe is ready; return those that are."""
        poll = select.poll()
        for each in self._ours:
            poll.register(each, select.POLLOUT if each == self._stdin else select.POLLIN)
        while True:
            if not self._alive():
                message = "the connection to the VM was closed in the middle of a command"
                raise ConnectionLost(message)
            left = self._deadline.remaining()
            ready = poll.poll(1000 * (_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)))
            if ready:
                return [number for number, _ in ready]
            if left == 0:
                message = f"a command in the VM did not end within {self._deadline.seconds:g} s"
                raise CommandTimeout(message)

    def _read(self, number: int) -> bytes:
        """Return what has come; nothing at the end, or if nothing is there after the end of the program."""
        try:
            return os.read(number, _READ_BYTES)
        except BlockingIOError:
            return b""

    def _end(self, number: int) -> None:
        self._ours.remove(number)
        os.close(number)


class _Input:
    """The input of a program, written as its pipe has room."""

    def __init__(self, chunks: Iterator[bytes | FileBytes]) -> None:
        self._chunks = chunks
        self._data = memoryview(b"")
        self._file: tuple[OpenFile, FileBytes] | None = None

    def write_to(self, pipe: int) -> bool:
        """Write until the pipe is full; False if there is no more to write. Raises FileCut."""
        try:
            while self._data or self._file or self._take_next():
                if self._file:
                    self._send(pipe, *self._file)
                else:
                    self._data = self._data[os.write(pipe, self._data) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self.close()
        return False

    def close(self) -> None:
        """Close the file that is being sent. Idempotent."""
        if self._file:
            os.close(self._file[0].number)
            self._file = None

    def _send(self, pipe: int, file: OpenFile, whole: FileBytes) -> None:
        sent = os.sendfile(pipe, file.number, None, file.left) if file.left else 0
        file.left -= sent
        if file.left and not sent:
            raise whole.cut()
        if not file.left:
            self.close()

    def _take_next(self) -> bool:
        chunk = next(self._chunks, None)
        if isinstance(chunk, FileBytes):
            self._file = (chunk.opened(), chunk)
        elif chunk is not None:
            self._data = memoryview(chunk)
        return chunk is not None
