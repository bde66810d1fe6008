"""The one command of a VM: started, ended at its time-out or on request, with its output and result."""

from __future__ import annotations

import fcntl
import os
import time

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any

    from .processes import Processes
    from .told import Told


_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 18
"""More than a pipe's usual 64 KiB, so that a command that prints much waits less often."""

_STOPPED_SECONDS = 1.0
"""The time after which what an ended command left is killed, if a shell has stopped its init."""

_QUIET_SECONDS = 5.0
_LEFT_SECONDS = 30.0
"""The time that what an ended command left, such as ``tee``, has to pass on output: quiet, and in all.

It ends before when nothing holds the output (engine.md, "The command").
"""

_RETRY_SECONDS = 0.25
"""The pause before output is written again after the file took none, as on a full disk."""


class Command:
    """A command that runs, or has ended.

    ``pipe`` is a descriptor to poll, -1 once it is done. Times are seconds since boot, a clock that nobody can set.
    """

    def __init__(self, spec: dict[str, Any], processes: Processes, output: Output, told: Told) -> None:
        """Start it. Raises OSError if its processes were killed."""
        self.output = output
        self._told = told
        tail: int = spec["output_tail"]
        output.keep(spec["output_limit"] - tail, tail)
        self._patience: float = spec["output_patience"]
        self._blocked_since: float | None = None
        self._retry_at: float | None = None
        self._unkept = 0
        self._grace: float = spec["grace"]
        self._processes, self.pipe = processes, processes.output
        os.set_blocking(self.pipe, False)
        _enlarge(self.pipe)
        processes.start(spec)
        self.exit_code: int | None = None
        self._started = uptime()
        self._ended = 0.0
        self._dead_code: int | None = None
        self._left_until: float | None = None
        self._last_output = 0.0
        self._cut_off: list[str] = []
        self._exited = self._ending = self._killed = self._timed_out = False
        self._time_out_at = self._started + spec["seconds"]
        self._term_at: float | None = self._time_out_at
        self._kill_at: float | None = None

    @property
    def end(self) -> int:
        """A descriptor to poll for `reap`; -1 if there is none now."""
        return self._processes.end

    @property
    def readable_pipe(self) -> int:
        """The pipe, to poll for `keep_output`; -1 while the output cannot be kept, so that the command waits."""
        return self.pipe if self._retry_at is None else -1

    def keep_output(self) -> bool:
        """Move what the pipe has now to the output; tell if there was anything.

        At its end all has come of an ended command's processes, and those that do not hold the output are killed.
        """
        try:
            count = self.output.lose(self.pipe) if self._unkept else self.output.move(self.pipe)
        except BlockingIOError:
            return False
        except OSError as error:  # such as that the host's disk is full
            self._block(error)
            return self._unkept != 0
        self._unblock()
        self._last_output = uptime()
        if count == 0:
            self._close_pipe()
            if self._left_until is not None:
                self._kill_rest()
        return count > 0

    def reap(self) -> None:
        """Take the next step to the end of the command, which sets ``exit_code``.

        All its processes are dead then, and their last output is kept, or has been waited for in vain.
        """
        if not self._exited:
            self._note_exit()
            return
        self._dead_code = self._processes.reap()
        if self._dead_code is not None:
            self._kill_at = None
            self._end()

    def terminate(self, grace: float) -> None:
        """Send TERM to all its processes, unless that was done, and KILL after ``grace`` seconds."""
        if not self._ending:
            self._ending, self._term_at = True, None
            self._processes.terminate()
        kill_at = uptime() + grace
        if self._left_until is not None:
            self._left_until = min(self._left_until, kill_at)
        else:
            self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)

    def enforce_times(self) -> None:
        """Send what is due: TERM at the time-out, KILL after the grace, KILL to an ended command's rest."""
        if self._term_at is not None and self._term_at <= uptime():
            self._timed_out = True
            self.terminate(self._grace)
        if self._kill_at is not None and self._kill_at <= uptime():
            self._kill_at, self._killed = None, True
            self._processes.kill()
        if self._retry_at is not None and self._retry_at <= uptime():
            self._retry_at = None
            self.keep_output()
            if self._dead_code is not None:
                self._end()
        if self._rest_at is not None and self._rest_at <= uptime():
            self._cut_off = [] if self._ending else self._processes.holders(self.pipe)
            self._kill_rest()

    @property
    def milliseconds_left(self) -> float | None:
        """The time until something is due; None if nothing is."""
        times = [at for at in (self._term_at, self._kill_at, self._rest_at, self._retry_at) if at is not None]
        return max(0.0, (min(times) - uptime()) * 1000 + 1) if times else None

    @property
    def result(self) -> bytes:
        """The lines that tell how it ended."""
        output = self.output
        facts = [f"started {self._started:.2f}", f"exit {self.exit_code}"]
        facts.append(f"output {output.kept} {output.size - output.kept}")
        if self._timed_out:
            facts.append("timed-out")
        if self._unkept:
            facts.append(f"unkept {self._unkept} {output.lost}")
        if self._cut_off:
            facts.append(f"cut-off {' '.join(self._cut_off)}")
        if told := self._told.names:
            facts.append(f"told {b' '.join(told).decode()}")
        facts.append(f"ended {self._ended:.2f}\nnow {uptime():.2f}\n")
        return "\n".join(facts).encode()

    @property
    def _rest_at(self) -> float | None:
        """The time at which what an ended command left is killed, as it looks now; None at other times."""
        if self._left_until is None or self._retry_at is not None:
            return None
        return min(self._left_until, self._last_output + _QUIET_SECONDS)

    def _block(self, error: OSError) -> None:
        """Let the command wait for its output to be kept; end it if that takes too long."""
        now = uptime()
        if self._blocked_since is None:
            self._blocked_since = now
        if not self._ending and now < min(self._blocked_since + self._patience, self._time_out_at):
            self._retry_at = now + _RETRY_SECONDS
            return
        self._unkept = error.errno or -1
        if not self._exited:
            self.terminate(self._grace)

    def _unblock(self) -> None:
        """Give what an ended command left its time anew, after a wait for room."""
        if self._blocked_since is not None and self._left_until is not None and not self._ending:
            self._left_until = max(self._left_until, min(uptime() + _LEFT_SECONDS, self._time_out_at))
        self._blocked_since = None

    def _note_exit(self) -> None:
        """Note that the command has ended; processes that it left have the rest of its time for output."""
        self._exited = True
        self._processes.note_exit()
        self._last_output = now = uptime()
        bounds = [at for at in (self._term_at, self._kill_at) if at is not None]
        self._term_at = self._kill_at = None
        self._left_until = now if self._killed else min(now + _LEFT_SECONDS, *bounds)
        if self.pipe < 0:
            self._kill_rest()

    def _end(self) -> None:
        """Note the end of a command whose processes are dead, unless its output still waits."""
        while self.pipe >= 0 and self.keep_output():
            pass
        if self._retry_at is not None:
            return
        if self.pipe >= 0:  # a shell that has entered may hold it
            self._close_pipe()
        self.exit_code = self._dead_code
        self._ended = uptime()

    def _kill_rest(self) -> None:
        self._left_until, self._kill_at = None, uptime() + _STOPPED_SECONDS
        self._processes.kill_rest()

    def _close_pipe(self) -> None:
        os.close(self.pipe)
        self.pipe = -1


def _enlarge(pipe: int) -> None:
    """Make a pipe larger, unless the user of all VMs has too many large ones."""
    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    except PermissionError:
        return


def uptime() -> float:
    """Return the seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_CHUNK = 1 << 20


class Output:
    """A file to which output is moved from a pipe: its first ``head`` bytes, then ``tail`` as a ring.

    ``size`` is the number of bytes that came. ``lost`` counts later ones, which the file could not take for too long.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self.head = self.tail = self.size = self.lost = 0

    def keep(self, head: int, tail: int) -> None:
        """Set the numbers of bytes at the beginning and at the end that are kept."""
        self.head, self.tail = head, tail

    def move(self, pipe: int) -> int:
        """Move what is in a pipe; return the number of bytes, 0 at its end.

        Raises BlockingIOError if nothing is there, and OSError if the file cannot take it: it stays in the pipe then.
        """
        position, room = self._place(self.size)
        if room:
            count = os.splice(pipe, self.file, min(room, _CHUNK), offset_dst=position)
        else:
            count = len(os.read(pipe, _CHUNK))
        self.size += count
        return count

    def lose(self, pipe: int) -> int:
        """Take what is in a pipe and do not keep it. Raises BlockingIOError."""
        count = len(os.read(pipe, _CHUNK))
        self.lost += count
        return count

    @property
    def kept(self) -> int:
        """The number of bytes that the file has."""
        return min(self.size, self.head + self.tail)

    def block(self, offset: int, *, whole: bool) -> tuple[int, int, int]:
        """Return the bytes to read next at an offset: how many are left out before, position, number.

        The end of the output is only read when it is ``whole``, because until then it moves on.
        """
        if offset < self.head or not whole:
            return 0, offset, max(0, min(self.size, self.head) - offset)
        start = max(offset, self.size - self.tail)
        position, room = self._place(start)
        return start - offset, position, min(room, self.size - start)

    def _place(self, offset: int) -> tuple[int, int]:
        """Return where a byte of the output is in the file, and how many from there on follow each other."""
        if offset < self.head:
            return offset, self.head - offset
        if not self.tail:
            return self.head, 0
        place = (offset - self.head) % self.tail
        return self.head + place, self.tail - place
