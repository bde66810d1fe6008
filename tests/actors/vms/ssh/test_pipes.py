"""Programs whose streams are pipes, by a shell of this host in place of a VM's."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from actors.vms import CommandTimeout, ConnectionLost, FileBytes, OutputTooLong
from actors.vms.ssh.files import FileCut, in_bytes
from actors.vms.ssh.pipes import PipeStream
from actors.vms.ssh.stream import Deadline
from storage import SystemClock

MIB = 1 << 20
TIMEOUT = 60.0


class Shell:
    """A way for pipes to shells of this host, whose exit codes are written as those of a VM's."""

    def __init__(self) -> None:
        self.shells: list[subprocess.Popen[bytes]] = []

    def start(self, script: str, streams: Sequence[int], /) -> None:
        stdin, stdout, stderr, status = streams
        argv = ["bash", "-c", f'sh -c "$1" {status}>&-; echo $? >&{status}', "bash", script]
        self.shells.append(subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=[status]))


class Silent:
    """A way for pipes to a VM that has taken a program and does nothing with it."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def start(self, _script: str, streams: Sequence[int], /) -> None:
        self.held += map(os.dup, streams)


class Started(Protocol):
    def __call__(self, script: str, stdin: Iterable[bytes | FileBytes] = ()) -> PipeStream: ...


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def started() -> Iterator[Started]:
    """Start programs; no descriptor is left of them at the end."""
    before = _descriptors()
    way = Shell()
    yield lambda script, stdin=(): PipeStream(way, script, stdin, Deadline(SystemClock(), TIMEOUT), lambda: True)
    assert _descriptors() == before
    for shell in way.shells:
        shell.wait(TIMEOUT)


@pytest.fixture
def silent() -> Iterator[Silent]:
    way = Silent()
    yield way
    for each in way.held:
        os.close(each)


def test_a_program_gives_its_output_errors_and_exit_code(started: Started):
    done = started("echo out; echo err >&2; exit 7").complete(100)
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_files_go_in_where_they_stand_among_bytes(started: Started, tmp_path: Path):
    large, empty = tmp_path / "large", tmp_path / "empty"
    large.write_bytes(os.urandom(3 * MIB + 17))
    empty.touch()
    sent: list[bytes | FileBytes] = [b"first", FileBytes(large, 3 * MIB + 17), FileBytes(empty, 0), b"", b"last"]
    expected = b"first" + large.read_bytes() + b"last"
    assert b"".join(in_bytes(sent)) == expected
    done = started("sha256sum", sent).complete(100)
    assert done.stdout.split()[0].decode() == hashlib.sha256(expected).hexdigest()


def test_large_input_and_output_do_not_block_each_other(started: Started):
    data = os.urandom(9 * MIB)
    done = started("tee /dev/stderr", [data[:MIB], data[MIB:]]).complete(len(data))
    assert done.stdout == data
    assert done.stderr == data[-(1 << 16) :]


def test_a_program_that_does_not_read_its_input_ends(started: Started):
    assert started("exit 3", [b"x" * (9 * MIB)]).complete(100).exit_code == 3


def test_a_file_that_ends_early_is_told(started: Started, tmp_path: Path):
    short = tmp_path / "short"
    short.write_bytes(b"x" * 100)
    for file in (FileBytes(short, 101), FileBytes(tmp_path / "gone", 1)):
        with pytest.raises(FileCut, match="no longer kept whole"), started("cat >/dev/null", [file]) as stream:
            stream.complete(100)
        with pytest.raises(FileCut):
            list(in_bytes([file]))


def test_a_file_that_grows_is_sent_as_it_was(started: Started, tmp_path: Path):
    grown = tmp_path / "grown"
    grown.write_bytes(b"x" * 100)
    assert started("cat", [FileBytes(grown, 40)]).complete(100).stdout == b"x" * 40


def test_an_input_that_fails_raises_and_closes_the_pipes(started: Started):
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk is gone"), started("cat", broken()) as stream:
        stream.complete(100)


def test_more_output_than_its_limit_is_refused(started: Started):
    with pytest.raises(OutputTooLong), started("head -c 300000 /dev/zero") as stream:
        stream.complete(200_000)


def test_a_program_without_an_exit_code_is_lost(started: Started):
    with pytest.raises(ConnectionLost, match="without an exit status"), started("kill -9 $PPID") as stream:
        stream.complete(100)


def given_up(way: Silent, timeout: float, *, alive: bool = True) -> PipeStream:
    return PipeStream(way, "", (), Deadline(SystemClock(), timeout), lambda: alive)


def test_a_program_that_does_not_end_in_time_is_given_up(silent: Silent):
    with pytest.raises(CommandTimeout, match=r"within 0\.01 s"), given_up(silent, 0.01) as stream:
        stream.complete(100)


def test_a_closed_connection_ends_the_stream(silent: Silent):
    with pytest.raises(ConnectionLost, match="was closed"), given_up(silent, TIMEOUT, alive=False) as stream:
        stream.complete(100)
