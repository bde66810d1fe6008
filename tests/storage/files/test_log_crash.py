from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import LogFiles
from storage.files.log_index import LogKind, LogRecord
from tests.clock import ManualClock

_CHECKOUT = Path(__file__).parents[3]
_WRITER = """
import sys
from pathlib import Path
from tempfile import mkdtemp
from storage import LogFiles, SystemClock

writer = LogFiles(Path(sys.argv[1]), sys.maxsize, SystemClock()).writer("build", "job", 1)
number = 0
while True:
    for _ in range(100):
        writer.output(f"line {number}\\n".encode())
        number += 1
    print(number, flush=True)
"""


def _logs(directory: Path, limit: int = 10**9) -> LogFiles:
    return LogFiles(directory, limit, ManualClock())


def _files(directory: Path) -> tuple[Path, Path]:
    return directory / "build" / "job" / "1.log", directory / "build" / "job" / "1.idx"


@pytest.mark.parametrize("rounds", [1, 7, 20])
def test_the_log_of_a_killed_writer_is_readable_and_continues(tmp_path: Path, rounds: int):
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, cwd=_CHECKOUT)
    assert process.stdout is not None
    for _ in range(rounds):
        reported = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    log = _logs(tmp_path).reader("build", "job")
    size = log.size()
    lines = log.read(0, size).decode().splitlines(keepends=True)
    assert lines == [f"line {number}\n" for number in range(len(lines))]
    assert len(lines) >= reported
    assert [chunk.content.decode() for chunk in log.chunks()] == lines
    with _logs(tmp_path).writer("build", "job", 1) as writer:
        assert writer.output_offset == writer.size == size
        writer.output(b"and on\n")
    assert log.read(size, 100) == b"and on\n"


def _written(directory: Path) -> bytes:
    with _logs(directory).writer("build", "job", 1) as writer:
        for word in ("one\n", "two\n", "thrée\n"):
            writer.output(word.encode())
    return "one\ntwo\nthrée\n".encode()


@given(st.integers(0, 96), st.integers(0, 15), st.binary(max_size=40))
def test_whatever_a_crash_cut_off_index_and_data_agree_again(
    memory_disk: Path, index_bytes: int, log_bytes: int, junk: bytes
):
    directory = Path(mkdtemp(dir=memory_disk))
    whole = _written(directory)
    log, index = _files(directory)
    log.write_bytes(whole[:log_bytes] + junk)
    index.write_bytes(index.read_bytes()[:index_bytes])
    with _logs(directory).writer("build", "job", 1) as writer:
        offset = writer.output_offset
        assert offset in {0, 4, 8, 15}
        writer.output(b"next\n")
    reader = _logs(directory).reader("build", "job")
    kept = (whole[:log_bytes] + junk)[:offset]
    assert reader.read(0, 1000) == kept + b"next\n"
    assert b"".join(chunk.content for chunk in reader.chunks()) == kept + b"next\n"
    assert log.stat().st_size == offset + 5


def test_records_of_zeros_as_a_power_cut_leaves_them_are_cut_off(tmp_path: Path):
    whole = _written(tmp_path)
    log, index = _files(tmp_path)
    index.write_bytes(index.read_bytes() + bytes(64))
    log.write_bytes(whole + bytes(100))
    with _logs(tmp_path).writer("build", "job", 1) as writer:
        assert writer.output_offset == len(whole)
    assert _logs(tmp_path).reader("build", "job").read(0, 1000) == whole


def test_a_reader_survives_an_index_ahead_of_its_log(tmp_path: Path):
    whole = _written(tmp_path)
    log, _index = _files(tmp_path)
    log.write_bytes(whole[:6])
    reader = _logs(tmp_path).reader("build", "job")
    assert reader.read(0, 1000) == whole[:6]
    assert b"".join(chunk.content for chunk in reader.chunks()) == whole[:6]


def test_a_reader_meets_an_index_that_shrinks_while_it_reads(tmp_path: Path):
    with _logs(tmp_path).writer("build", "job", 1) as writer:
        for _ in range(1000):
            writer.output(b"line\n")
    _, index = _files(tmp_path)
    chunks = _logs(tmp_path).reader("build", "job").chunks()
    read = [next(chunks)]
    index.write_bytes(index.read_bytes()[:320])
    read += chunks
    assert 10 <= len(read) < 1000
    assert {chunk.content for chunk in read} == {b"line\n"}


def test_a_record_has_one_size_and_comes_back(tmp_path: Path):
    record = LogRecord(2**40, 2**41, 1_700_000_000_000_000_000, LogKind.NOTICE)
    assert len(record.pack()) == len(LogRecord(0, 0, 0, LogKind.OUTPUT).pack()) == 32


def test_a_command_that_starts_again_leaves_no_lines_of_before(tmp_path: Path):
    """A power cut took the row of the first start, and left lines of its output."""
    logs = _logs(tmp_path)
    with logs.writer("build", "job", 1) as writer:
        writer.notice("the opening")
        writer.output(b"before the cut\n")
    writer = logs.writer("build", "job", 1)
    writer.begin_anew()
    assert (writer.size, writer.output_offset) == (0, 0)
    writer.notice("the opening")
    writer.begin_anew()
    writer.output(b"after the cut\n")
    writer.end()
    assert logs.reader("build", "job").read(0, 1000) == b"the opening\nafter the cut\n"
    assert [chunk.content for chunk in logs.reader("build", "job").chunks()] == [b"the opening\n", b"after the cut\n"]
