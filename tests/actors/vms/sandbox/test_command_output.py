"""The last output of a command, which the supervisor of a VM's job keeps when the command has ended."""

from __future__ import annotations

import errno
import os
import resource
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from actors.vms import Exited
from actors.vms.guest.command import parse_result
from actors.vms.launcher.command import Command, Output
from actors.vms.launcher.processes import Processes
from actors.vms.launcher.told import Told

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


class _Silent:
    """The files of a command that tells nothing by them."""

    names: tuple[bytes, ...] = ()


@pytest.fixture
def run(kept: Path) -> Iterator[Run]:
    """Run a command that has written something and ended; ``held``: another process can write, too."""
    opened = [os.open(kept, os.O_RDWR | os.O_CREAT)]

    def make(written: bytes, *, held: bool = False, patience: float = 20.0) -> Command:
        processes = _Ended(written, held=held)
        if processes.held is not None:
            opened.append(processes.held)
        return Command(
            {"output_limit": 100, "output_tail": 0, "output_patience": patience, "grace": 1.0, "seconds": 60.0},
            cast("Processes", processes),
            Output(opened[0]),
            cast("Told", _Silent()),
        )

    yield make
    for each in opened:
        os.close(each)


@pytest.mark.parametrize("read_before", [False, True])
def test_the_last_output_is_kept_when_the_command_is_reaped(run: Run, kept: Path, *, read_before: bool):
    command = run(b"last words")
    if read_before:
        command.keep_output()
    command.reap()
    assert command.exit_code is None
    while command.pipe >= 0:
        command.keep_output()
    command.reap()
    assert command.exit_code == 0
    assert kept.read_bytes() == b"last words"


def test_what_still_holds_the_output_is_left_its_time(run: Run, kept: Path):
    command = run(b"last words", held=True)
    command.reap()
    command.keep_output()
    command.reap()
    assert command.exit_code is None
    assert command.milliseconds_left is not None
    assert 1000 < command.milliseconds_left <= 5001
    command.terminate(0)
    command.enforce_times()
    command.reap()
    assert (command.exit_code, command.pipe) == (0, -1)
    assert kept.read_bytes() == b"last words"


@pytest.fixture
def no_room() -> Iterator[Callable[[], None]]:
    """Limit the size of files, as if the disk were full; calling it lifts that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, before[1]))

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    yield lift
    lift()


def _retry(command: Command) -> None:
    """Let the time pass until the output is moved again."""
    select.poll().poll(command.milliseconds_left)
    command.enforce_times()


def test_output_waits_while_it_cannot_be_kept(run: Run, kept: Path, no_room: Callable[[], None]):
    """The command waits too, as its pipe is not read, and counts as running until its output is kept."""
    command = run(b"last words")
    command.keep_output()
    command.keep_output()
    assert command.readable_pipe == -1
    command.reap()
    _retry(command)
    assert (command.exit_code, kept.read_bytes()) == (None, b"last ")
    no_room()
    _retry(command)
    while command.pipe >= 0:
        command.keep_output()
    command.reap()
    assert (command.exit_code, kept.read_bytes()) == (0, b"last words")
    assert parse_result(command.result) == Exited(0, 10, truncated=False)


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("ended", [False, True])
def test_output_that_waits_in_vain_is_lost_and_said(run: Run, kept: Path, *, ended: bool):
    command = run(b"last words", patience=0.0)
    if ended:
        command.reap()
    while command.pipe >= 0:
        command.keep_output()
        command.enforce_times()
    for _ in range(2):
        command.reap()
    assert kept.read_bytes() == b"last "
    assert parse_result(command.result) == Exited(0, 5, truncated=False, unkept=errno.EFBIG)
    assert b"unkept %d 5\n" % errno.EFBIG in command.result


def test_the_end_of_long_output_is_kept_and_sent_at_last(kept: Path):
    """The middle is left out, at every length."""
    for length in range(40):
        written = bytes(range(100, 100 + length))
        read, write = os.pipe()
        with kept.open("wb+") as file:
            output = Output(file.fileno())
            output.keep(7, 5)
            for byte in written:
                os.write(write, bytes([byte]))
                output.move(read)
            sent, offset, left_out = b"", 0, 0
            while offset < length:
                skipped, position, size = output.block(offset, whole=True)
                sent += os.pread(file.fileno(), size, position)
                offset += skipped + size
                left_out += skipped
        assert sent == (written if length <= 12 else written[:7] + written[-5:])
        assert (output.kept, left_out) == (min(length, 12), max(0, length - 12))
        assert output.block(0, whole=False)[2] == min(length, 7)
        os.close(read)
        os.close(write)
