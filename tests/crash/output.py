"""The output of the crash tests' commands: known to the byte, from the step's key and the attempt."""

from __future__ import annotations

import inspect
import random
import shlex
from collections.abc import Iterator
from dataclasses import dataclass


def blocks(key: str, attempt: int, count: int, size: int) -> Iterator[bytes]:
    """Yield ``count`` blocks: some words, then ``size`` random bytes, or a line feed if ``size`` is 0."""
    source = random.Random(f"{key}/{attempt}")
    for number in range(count):
        yield b"%s, attempt %d, block %d: " % (key.encode(), attempt, number) + (source.randbytes(size) or b"\n")


_PROGRAM = f"""
import os, random, sys, time
{inspect.getsource(blocks).replace("Iterator[bytes]", "object")}
count, size, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
for block in blocks(os.environ["CI_STEP_KEY"], int(os.environ["CI_ATTEMPT"]), count, size):
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()
    time.sleep(pause)
"""


@dataclass(frozen=True)
class Output:
    """A command's ``count`` blocks of ``size`` random bytes, after ``before`` and before ``then``.

    ``pause`` is the seconds to sleep after each block.
    """

    count: int = 3
    size: int = 0
    pause: float = 0.05
    then: str = "exit 0"
    before: str = ""

    def command(self) -> str:
        """Return the shell command that prints it."""
        return f"{self.before}python3 -c {shlex.quote(_PROGRAM)} {self.count} {self.size} {self.pause}; {self.then}"

    def expected(self, key: str, attempt: int) -> bytes:
        """Return the command's output in an attempt."""
        return b"".join(blocks(key, attempt, self.count, self.size))
