"""The last output of a command, which the supervisor of a VM's job keeps when the command has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from actors.vms.sandbox.launcher.job.command import Command
from actors.vms.sandbox.launcher.job.output import Output
from actors.vms.sandbox.launcher.job.processes import Processes

Run = Callable[..., Command]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "output"


class _Ended:
    """Processes of a command that has ended; with ``held`` another process can still write."""

    def __init__(self, written: bytes, *, held: bool) -> None:
        self.output, output = os.pipe()
        os.write(output, written)
        self.held = os.dup(output) if held else None
        self.killed = False
        os.close(output)

    def start(self, _spec: object) -> None:
        pass

    def note_exit(self) -> None:
        pass

    def terminate(self) -> None:
        pass

    def holders(self, _pipe: int) -> list[str]:
        return ["left"]

    def kill_rest(self) -> None:
        self.killed = True

    def reap(self) -> int | None:
        return 0 if self.killed else None


@pytest.fixture
def run(kept: Path) -> Iterator[Run]:
    """Run a command that has written something and ended; ``held``: another process can write, too."""
    opened = [os.open(kept, os.O_RDWR | os.O_CREAT)]

    def make(written: bytes, *, held: bool = False) -> Command:
        processes = _Ended(written, held=held)
        if processes.held is not None:
            opened.append(processes.held)
        return Command(
            {"output_limit": 100, "grace": 1.0, "seconds": 60.0}, cast("Processes", processes), Output(opened[0])
        )

    yield make
    for each in opened:
        os.close(each)


@pytest.mark.parametrize("read_before", [False, True])
def test_the_last_output_is_kept_when_the_command_is_reaped(run: Run, kept: Path, *, read_before: bool):
    command = run(b"last words")
    if read_before:
        command.keep_output()
    assert not command.reap()
    while command.pipe >= 0:
        command.keep_output()
    assert command.reap()
    assert command.exit_code == 0
    assert kept.read_bytes() == b"last words"


def test_what_still_holds_the_output_is_left_its_time(run: Run, kept: Path):
    command = run(b"last words", held=True)
    assert not command.reap()
    command.keep_output()
    assert not command.reap()
    assert command.milliseconds_left is not None
    assert 1000 < command.milliseconds_left <= 5001
    command.terminate(0)
    command.enforce_times()
    assert command.reap()
    assert (command.exit_code, command.pipe) == (0, -1)
    assert kept.read_bytes() == b"last words"
