from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import LogFiles
from storage.files.log_index import LogKind
from tests.clock import ManualClock

OUTPUT, NOTICE = LogKind.OUTPUT, LogKind.NOTICE


@pytest.fixture
def logs(tmp_path: Path, clock: ManualClock) -> LogFiles:
    return LogFiles(tmp_path, sys.maxsize, clock)


def _write(logs: LogFiles, *outputs: bytes, attempt: int = 1) -> None:
    with logs.writer("build", "job", attempt) as writer:
        for output in outputs:
            writer.output(output)


def _text(logs: LogFiles) -> bytes:
    log = logs.reader("build", "job")
    return log.read(0, log.size())


def _chunks(logs: LogFiles, after: int = 0) -> list[tuple[int, LogKind, bytes]]:
    return [(chunk.seq, chunk.kind, chunk.content) for chunk in logs.reader("build", "job").chunks(after)]


def test_a_missing_log_is_empty(logs: LogFiles):
    log = logs.reader("build", "job")
    assert (log.size(), log.read(0, 100), list(log.chunks())) == (0, b"", [])


def test_output_is_readable_at_once_while_it_is_written(logs: LogFiles, clock: ManualClock):
    writer = logs.writer("build", "job", 1)
    writer.output(b"one\n")
    clock.advance(seconds=1)
    assert _text(logs) == b"one\n"
    writer.output(b"two\n")
    assert _chunks(logs) == [(4, OUTPUT, b"one\n"), (8, OUTPUT, b"two\n")]
    assert (writer.size, writer.output_offset) == (8, 8)
    times = [chunk.time_ns for chunk in logs.reader("build", "job").chunks()]
    assert times[1] - times[0] == 1_000_000_000
    assert times[1] == 1_772_366_401_123_456_000
    writer.close()
    writer.close()


def test_a_notice_has_its_own_line_and_is_not_output(logs: LogFiles):
    with logs.writer("build", "job", 1) as writer:
        writer.notice("VM granted")
        writer.output(b"half a line")
        writer.notice("canceled 🛑 \ud800")
        assert writer.output_offset == len(b"half a line")
    assert _chunks(logs) == [
        (11, NOTICE, b"VM granted\n"),
        (22, OUTPUT, b"half a line"),
        (39, NOTICE, "\ncanceled 🛑 ?\n".encode()),
    ]


def test_attempts_follow_each_other_by_number(logs: LogFiles):
    for attempt in (1, 2, 10, 9):
        _write(logs, f"attempt {attempt}\n".encode(), b"", attempt=attempt)
    assert _text(logs) == b"attempt 1\nattempt 2\nattempt 9\nattempt 10\n"
    assert [seq for seq, _, _ in _chunks(logs)] == [10, 20, 30, 41]


def test_reading_on_after_a_chunk_starts_at_the_very_next_byte(logs: LogFiles):
    _write(logs, b"abc", b"def", b"ghi")
    _write(logs, b"jkl", attempt=2)
    chunks = _chunks(logs)
    for position, (seq, _, _) in enumerate(chunks):
        assert _chunks(logs, seq) == chunks[position + 1 :]
    assert _chunks(logs, 4)[0] == (6, OUTPUT, b"ef")
    assert _chunks(logs, 99) == []


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 100, b"abcdefghi"), (2, 3, b"cde"), (4, 100, b"efghi"), (9, 5, b""), (50, 5, b""), (3, 0, b""), (6, 1, b"g")],
)
def test_any_stretch_of_bytes_can_be_read_across_attempts(logs: LogFiles, start: int, length: int, expected: bytes):
    _write(logs, b"abc", b"d")
    _write(logs, b"ef", attempt=2)
    _write(logs, b"ghi", attempt=3)
    assert logs.reader("build", "job").read(start, length) == expected


def test_a_character_that_arrives_in_pieces_is_kept_in_one(logs: LogFiles):
    writer = logs.writer("build", "job", 1)
    smile = "🙂".encode()
    for piece in (b"a" + smile[:1], smile[1:3]):
        writer.output(piece)
    assert (_text(logs), writer.output_offset) == (b"a", 4)
    writer.output(smile[3:] + b"b")
    assert _chunks(logs) == [(1, OUTPUT, b"a"), (6, OUTPUT, smile + b"b")]
    assert writer.output_offset == 6
    writer.output(smile[:3])
    writer.end()
    writer.end()
    assert _text(logs)[6:] == smile[:3]


def test_bytes_that_are_no_utf_8_are_kept_and_not_held_back(logs: LogFiles):
    with logs.writer("build", "job", 1) as writer:
        for junk in (b"\xff\xfe", b"\x80\x80\x80\x80", b"\xc0", b"\xf5\x80", b"\xe2\x28"):
            writer.output(junk)
            assert _text(logs).endswith(junk)


def test_large_output_is_kept_in_chunks_of_whole_characters(logs: LogFiles):
    text = "a" + "é" * 200_000
    _write(logs, text.encode())
    chunks = _chunks(logs)
    assert len(chunks) > 2
    assert all(len(content) <= 128 * 1024 for _, _, content in chunks)
    assert "".join(content.decode() for _, _, content in chunks) == text


def test_more_records_than_are_read_at_once_all_come(logs: LogFiles):
    lines = [f"{number}\n".encode() for number in range(1500)]
    _write(logs, *lines)
    assert [content for _, _, content in _chunks(logs)] == lines
    after = len(b"".join(lines[:777]))
    assert [content for _, _, content in _chunks(logs, after)] == lines[777:]


@given(
    st.lists(st.one_of(st.text(max_size=20).map(str.encode), st.binary(max_size=20)), max_size=20),
    st.lists(st.integers(0, 400), max_size=20),
    st.integers(0, 400),
)
def test_however_output_is_cut_up_the_log_is_its_bytes(
    memory_disk: Path, pieces: list[bytes], reopen_at: list[int], after: int
):
    logs = LogFiles(Path(mkdtemp(dir=memory_disk)), sys.maxsize, ManualClock())
    writer = logs.writer("build", "job", 1)
    for position, piece in enumerate(pieces):
        writer.output(piece)
        if position in reopen_at:
            writer.close()
            writer = logs.writer("build", "job", 1)
            writer.output(b"".join(pieces[: position + 1])[writer.output_offset :])
    writer.end()
    whole = b"".join(pieces)
    assert _text(logs) == whole
    assert b"".join(content for _, _, content in _chunks(logs, after)) == whole[after:]
    assert writer.output_offset == len(whole)


def _limited(tmp_path: Path, limit: int) -> LogFiles:
    return LogFiles(tmp_path, limit, ManualClock())


def test_the_last_lines_of_long_output_are_kept(tmp_path: Path):
    """The beginning comes at once; the end after a notice of what is missing, when no more comes."""
    logs = _limited(tmp_path, 20)
    with logs.writer("build", "job", 1) as writer:
        writer.output(b"12345678")
        writer.output(b"9abcdef")
        assert _text(logs) == b"123456789a"
        writer.output(b"ghi\n" * 1000)
        assert writer.output_offset == 8 + 7 + 4000
        writer.notice("a notice")
        writer.output(b"LAST\nONE")
    assert [(kind, content) for _, kind, content in _chunks(logs)] == [
        (OUTPUT, b"12345678"),
        (OUTPUT, b"9a"),
        (NOTICE, b"\na notice\n"),
        (NOTICE, b"4005 bytes of output are left out here: the log keeps 20.\n"),
        (OUTPUT, b"LAST\nONE"),
    ]
    assert writer.output_offset == 8 + 7 + 4000 + 8


def test_what_does_not_come_is_counted_as_left_out(tmp_path: Path):
    logs = _limited(tmp_path, 20)
    with logs.writer("build", "job", 1) as writer:
        writer.output(b"head\n")
        writer.leave_out(70)
        assert writer.output_offset == 75
        writer.output(b"xx\nLAST")
    assert _text(logs) == b"head\n73 bytes of output are left out here: the log keeps 20.\nLAST"


def test_a_writer_that_dies_at_the_gap_gets_the_end_again(tmp_path: Path):
    """Nothing of the end was appended, so that its successor says once what is missing."""
    logs = _limited(tmp_path, 20)
    writer = logs.writer("build", "job", 1)
    writer.output(b"head\n")
    writer.leave_out(70)
    writer.output(b"LAST")
    writer.close()
    with logs.writer("build", "job", 1) as again:
        assert again.output_offset == 5
        again.leave_out(70)
        again.output(b"LAST")
    assert _text(logs) == b"head\n70 bytes of output are left out here: the log keeps 20.\nLAST"


def test_a_log_that_pauses_says_so_once(tmp_path: Path):
    """Also after the writer has died."""
    logs = _limited(tmp_path, 20)
    for _ in range(2):
        writer = logs.writer("build", "job", 1)
        writer.notice_pause()
        writer.close()
    with logs.writer("build", "job", 1) as writer:
        writer.notice_pause()
    says = "The log has reached 10 bytes. It goes on when the command has ended, with the last 10 bytes of its output."
    assert _text(logs).decode() == f"{says}\n"


def test_output_that_ends_at_the_limit_has_no_notice(tmp_path: Path):
    logs = _limited(tmp_path, 5)
    _write(logs, b"12345")
    assert _text(logs) == b"12345"


def test_a_reopened_log_has_the_rest_of_its_limit(tmp_path: Path):
    logs = _limited(tmp_path, 10)
    _write(logs, b"123456")
    _write(logs, b"7890")
    assert _text(logs) == b"1234567890"


def test_each_attempt_has_the_whole_limit(tmp_path: Path):
    logs = _limited(tmp_path, 20)
    for attempt in (1, 2):
        _write(logs, b"head of %d\n%s\nLAST of %d" % (attempt, b"x" * 100, attempt), attempt=attempt)
    assert [content for _, kind, content in _chunks(logs) if kind is OUTPUT] == [
        b"head of 1\n",
        b"LAST of 1",
        b"head of 2\n",
        b"LAST of 2",
    ]


def test_output_and_notices_from_several_threads_are_all_kept(logs: LogFiles):
    with logs.writer("build", "job", 1) as writer:

        def write(name: int) -> None:
            for _ in range(100):
                writer.output(b"x" * name + b"\n") if name else writer.notice("n")

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = _text(logs).splitlines()
    assert sorted(lines) == sorted([b"n"] * 100 + [b"x"] * 100 + [b"xx"] * 100 + [b"xxx"] * 100)


@contextmanager
def _room_for(file_bytes: int) -> Iterator[None]:
    """Limit the size of any file that is written, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("output", [b"its record does not fit\n", b"it does not fit" * 20, b"\xc3" * 9])
def test_a_full_disk_keeps_the_log_and_output_may_be_repeated(logs: LogFiles, output: bytes):
    writer = logs.writer("build", "job", 1)
    writer.output(b"before\n\xe2")
    with _room_for(60), pytest.raises(OSError, match="File too large"):
        writer.output(output)
    assert (_text(logs), writer.output_offset) == (b"before\n", 7)
    writer.output(b"after\n")
    writer.end()
    assert _text(logs) == b"before\nafter\n"
    with logs.writer("build", "job", 1) as again:
        assert again.output_offset == 13
