"""Programs of the host: watched while they run, killed with the thread that waits for them."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections import deque
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

POLL_SECONDS = 0.2
"""Seconds between two checks of a program."""

_CHUNK_BYTES = 1 << 16
_LAST_BYTES = 1 << 16
_DIES_WITH_CALLER = ("setpriv", "--pdeathsig", "KILL", "--")


_NICE = 5


@immutable
class ProcessResult:
    """The end of a program: its exit status, and the end of its output."""

    status: int
    output: str


@immutable
class Limits:
    """The most CPU time and memory that a program, and each that it starts, may take.

    Memory is what it writes to: files that it maps to read them, such as packs of git, are not counted. The program
    also runs with a lower priority than the service.
    """

    cpu_seconds: int
    memory_bytes: int

    @property
    def prefix(self) -> tuple[str, ...]:
        """The beginning of a command line that runs the rest within the limits."""
        cpu, memory = f"--cpu={self.cpu_seconds}", f"--data={self.memory_bytes}"
        return ("nice", "-n", str(_NICE), "prlimit", cpu, memory, "--core=0", "--")


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    check: Callable[[], None],
    stdout: IO[bytes] | None = None,
    limits: Limits | None = None,
    pass_fds: Sequence[int] = (),
) -> ProcessResult:
    """Run a program to its end, within ``limits`` if it works on what a stranger sent.

    ``check`` is called at least every `POLL_SECONDS`; if it raises, the program is killed and the exception is raised
    from here. The program's output goes to ``stdout`` if that is given, else with its errors into ``output``. The
    program dies with the calling thread.

    With limits it stays in the session of the service: where the kernel divides the CPU time among sessions, a lower
    priority counts only within one.
    """
    prefix = (*_DIES_WITH_CALLER, *(limits.prefix if limits else ()))
    with subprocess.Popen(
        [*prefix, *argv], cwd=cwd, env=dict(environment),
        start_new_session=limits is None, process_group=0 if limits else None,
        pass_fds=pass_fds, stdin=subprocess.DEVNULL, stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE if stdout else subprocess.STDOUT,
    ) as process:  # fmt: skip
        pipe = process.stderr if stdout else process.stdout
        assert pipe is not None  # noqa: S101 - one of them is a pipe
        try:
            output = _read(pipe.fileno(), check)
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return ProcessResult(process.wait(POLL_SECONDS), output)
                check()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _read(pipe: int, check: Callable[[], None]) -> str:
    """Read a pipe until it is closed; return the end of its contents."""
    chunks: deque[bytes] = deque(maxlen=_LAST_BYTES // 64)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            check()
            if not selector.select(POLL_SECONDS):
                continue
            chunk = os.read(pipe, _CHUNK_BYTES)
            if not chunk:
                return b"".join(chunks)[-_LAST_BYTES:].decode(errors="replace")
            chunks.append(chunk)
