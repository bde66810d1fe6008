"""The last output of a command, which the supervisor of a VM's job keeps when the command has ended."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms.sandbox.launcher.job import processes
from actors.vms.sandbox.launcher.job.command import Command
from actors.vms.sandbox.launcher.job.output import Output

Run = Callable[..., Command]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def run(kept: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Make a command that has written something and ended; ``held``: another process can write, too."""
    opened = [os.open(kept, os.O_RDWR | os.O_CREAT)]

    def make(written: bytes, *, held: bool = False) -> Command:
        def start(_spec: object, _limits: object, _groups: object, output: int) -> tuple[int, int]:
            os.write(output, written)
            if held:
                opened.append(os.dup(output))
            ended = os.posix_spawn("/bin/true", ["true"], {})
            pidfd = os.pidfd_open(ended)
            select.select([pidfd], [], [])
            return ended, pidfd

        monkeypatch.setattr(processes, "start", start)
        return Command({"output_limit": 100, "grace": 1.0, "seconds": 60.0}, [], [], Output(opened[0]))

    yield make
    for each in opened:
        os.close(each)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("read_before", [False, True])
def test_the_last_output_is_kept_when_the_command_is_reaped(run: Run, kept: Path, *, read_before: bool, held: bool):
    command = run(b"last words", held=held)
    if read_before:
        command.keep_output()
    command.reap()
    assert (command.exit_code, command.pipe, command.keeper) == (0, -1, -1)
    assert kept.read_bytes() == b"last words"
