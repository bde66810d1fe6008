"""A terminal with a shell in the job's namespaces, which lasts as long as the VM.

The last output is kept in a ring, by the numbers of its bytes, for a reader who was away. Input has numbers as well: a
part that is sent twice is typed once.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import select
import struct

from .command import Output, uptime
from .processes import SHELLS, become_program, limit_processes

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from .namespaces import Namespaces


_MULTIPLEXER = "/dev/pts/ptmx"
_SET_LOCK, _OPEN_PEER, _SET_SIZE, _SET_CONTROLLING = 0x40045431, 0x5441, 0x5414, 0x540E
"""Requests of ioctl_tty(2): TIOCSPTLCK, TIOCGPTPEER, TIOCSWINSZ and TIOCSCTTY."""

_KEPT_BYTES = 1 << 18
_MOST_TYPED = 1 << 16
"""The most bytes that wait for a program which does not read them."""

_BATCH_BYTES, _PAUSE_SECONDS = 1 << 15, 0.02
"""The most output that is taken at once, and the pause after it: each part costs its readers much.

The first output after a pause, such as the echo of a key, does not wait.
"""

_NOT_STARTED = 127


class Terminals:
    """The terminal of the VM, of which there is none or one, and what is asked about it."""

    def __init__(self, job: Namespaces, limits: list[tuple[int, int, int]], groups: list[int]) -> None:
        self.open: Terminal | None = None
        self._job, self._limits, self._groups = job, limits, groups

    def answer(self, word: bytes, number: int, content: bytes) -> bytes:
        """Open it, or take input or another size; return the answer."""
        if word == b"terminal":
            return self._start(content)
        if self.open is None:
            return b"none\n"
        if word == b"type":
            self.open.type(int.from_bytes(content[:_NUMBER_BYTES], "big"), content[_NUMBER_BYTES:])
        else:
            self.open.resize(number >> _SIZE_BITS, number & _MOST_SIZE)
        return b"typed %d\n" % self.open.typed

    def _start(self, content: bytes) -> bytes:
        """Start its shell, unless that was done."""
        try:
            if self.open is None:
                spec = marshal.loads(content)  # noqa: S302 - from the service itself
                self.open = Terminal(spec, self._job, self._limits, self._groups)
        except (OSError, EOFError, ValueError) as error:  # no room for a process, or the spec was cut
            return f"failed {error}\n".encode()
        return b"started\n"


_NUMBER_BYTES = 8
_SIZE_BITS, _MOST_SIZE = 16, (1 << 16) - 1


class Terminal:
    """The shell and its terminal."""

    def __init__(
        self, spec: dict[str, Any], job: Namespaces, limits: list[tuple[int, int, int]], groups: list[int]
    ) -> None:
        """Start the shell. Raises OSError if there is no room for it, and ValueError for a spec that was cut."""
        self.output = _Screen()
        self.typed = 0
        """The number of bytes that were taken as input."""

        self.exit_code: int | None = None
        self._ours = os.open(_MULTIPLEXER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self._theirs = -1
        self._waiting = b""
        self._rests_until: float | None = None
        try:
            fcntl.ioctl(self._ours, _SET_LOCK, struct.pack("i", 0))
            self._theirs = fcntl.ioctl(self._ours, _OPEN_PEER, os.O_RDWR | os.O_NOCTTY)
            self.resize(spec["columns"], spec["rows"])
            self._shell = os.fork()
            if self._shell == 0:
                _become_shell(spec, job, limits, groups, self._theirs)
        except OSError:
            self._close()
            raise
        self._end = os.pidfd_open(self._shell)

    def polled(self, *, reading: bool) -> Iterator[tuple[int, int]]:
        """Yield the descriptors to poll for `attend`, with their events.

        Unless it is ``reading`` nothing is read: so the ring is not written anew under what is being sent, and a
        program that prints without end waits for who looks.
        """
        if self.exit_code is None:
            yield self._end, select.POLLIN
            if self._rests_until is not None and self._rests_until <= uptime():
                self._rests_until = None  # here alone, so that who does not poll for output has a time to wait for
            taking = reading and self._rests_until is None
            if events := (select.POLLIN if taking else 0) | (select.POLLOUT if self._waiting else 0):
                yield self._ours, events

    @property
    def milliseconds_left(self) -> float | None:
        """The time until more output is taken; None if it is taken now."""
        return None if self._rests_until is None else max(0.0, (self._rests_until - uptime()) * 1000 + 1)

    @property
    def result(self) -> bytes:
        """The line that tells how the shell has ended."""
        return b"exit %d\n" % (self.exit_code or 0)

    def attend(self, ready: dict[int, int]) -> None:
        """Keep what was printed, pass on what was typed, and note the end of the shell, whatever is due."""
        events = ready.get(self._ours, 0)
        if events & select.POLLOUT:
            self._pass_on()
        if events & select.POLLIN:
            self._keep_output()
        if self._end in ready:
            self._note_end()

    def type(self, number: int, data: bytes) -> None:
        """Take input whose first byte has a number.

        It leaves out what was taken before, what comes after a gap, and what there is no room for.
        """
        new = data[self.typed - number :] if number <= self.typed else b""
        taken = new[: _MOST_TYPED - len(self._waiting)]
        self.typed += len(taken)
        if self.exit_code is None:
            self._waiting += taken
            self._pass_on()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size in characters; the programs in it get SIGWINCH."""
        if self.exit_code is None:
            fcntl.ioctl(self._ours, _SET_SIZE, struct.pack("HHHH", rows, columns, 0, 0))

    def _pass_on(self) -> None:
        try:
            self._waiting = self._waiting[os.write(self._ours, self._waiting) :]
        except BlockingIOError:  # the programs in it read no more now
            return

    def _keep_output(self) -> int:
        """Keep what there is, up to the most that is taken at once; return the number of its bytes."""
        count = 0
        try:
            while count < _BATCH_BYTES and (data := os.read(self._ours, _BATCH_BYTES - count)):
                self.output.add(data)
                count += len(data)
        except BlockingIOError:
            pass
        self._rests_until = uptime() + _PAUSE_SECONDS
        return count

    def _note_end(self) -> None:
        """Note the end of the shell with all that it has printed. What it left behind loses the terminal."""
        code = os.waitstatus_to_exitcode(os.waitpid(self._shell, 0)[1])
        os.close(self._end)
        left = _KEPT_BYTES
        while left > 0 and (count := self._keep_output()):
            left -= count
        self._close()
        self._waiting, self._end, self._rests_until = b"", -1, None
        self.exit_code = code if code >= 0 else 128 - code

    def _close(self) -> None:
        for each in (self._ours, self._theirs):
            if each >= 0:
                os.close(each)
        self._ours = self._theirs = -1


class _Screen(Output):
    """The last output, as a ring in memory."""

    def __init__(self) -> None:
        super().__init__(os.memfd_create("screen"))
        self.keep(0, _KEPT_BYTES)

    def add(self, data: bytes) -> None:
        """Keep more."""
        while data:
            position, room = self._place(self.size)
            count = os.pwrite(self.file, data[:room], position)
            self.size += count
            data = data[count:]


def _become_shell(
    spec: dict[str, Any], job: Namespaces, limits: list[tuple[int, int, int]], groups: list[int], terminal: int
) -> NoReturn:
    try:
        become_program(job, limits, groups, (terminal, terminal, terminal), b"terminal")
        fcntl.ioctl(0, _SET_CONTROLLING, 0)
        limit_processes(spec["processes"])
        try:
            os.chdir(spec["cwd"])
        except OSError:  # the job has removed its workspace
            os.chdir("/")
        shell = next((path for path in SHELLS if os.access(path, os.X_OK)), SHELLS[-1])
        os.execve(shell, [shell], spec["env"])  # noqa: S606 - the very point
    except OSError as error:
        os.write(2, f"no shell can be started: {error.strerror}\r\n".encode())
    finally:
        os._exit(_NOT_STARTED)
