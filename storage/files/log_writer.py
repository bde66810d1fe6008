"""Writing an attempt's log so that log and index agree after a crash at any byte.

Bytes go to the log first, their records to the index after. Readers ignore bytes without a record, and the next writer
cuts them off. Both are synced when the writer lets go of them, before a row says that the attempt has ended. No record
ends inside a masked secret or what may be the start of one, so that the next writer masks the same bytes.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from storage.data_classes import immutable
from storage.database.clock import to_micros
from storage.files.kinds import sync_folder
from storage.files.log_index import LogKind, LogRecord, read_records, record_count, record_offset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.database.clock import Clock
    from storage.files.masking import Masker

_RECORD_BYTES = 128 * 1024
_TAIL_BYTES = 4 << 20
_MAX_NOTICES = 64 * 1024
"""Bytes of notices that leave the output its whole share."""

_MASK_GROWTH = 3
"""Bytes that may stand for one of a secret that is masked."""

_MAX_PIECES = os.sysconf("SC_IOV_MAX")
_CONTINUATION = range(0x80, 0xC0)
_LEADS = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}


@immutable
class OutputShare:
    """The parts of a command's output that a log keeps: the first ``head`` bytes, the last ``tail`` ones.

    The ``margin`` before the tail is read too, to mask secrets that begin in it.
    """

    head: int
    tail: int
    margin: int


def share_of_output(limit: int, masker: Masker) -> OutputShare:
    """Return the share of a command's output in a log that is limited to so many bytes."""
    tail = min(limit // 2, _TAIL_BYTES)
    return OutputShare(limit - tail, tail, _MASK_GROWTH * max(0, masker.longest - 1))


class LogWriter:
    """Appends to the log of one attempt, which has one writer at a time. Safe in any thread.

    Output past the head of its share waits in memory until the end, which appends it; if it is more than the tail,
    after a notice of how much is left out between them. So what was appended never changes. A writer that dies before
    loses only what its successor gets again, from `output_offset` on.
    """

    def __init__(self, log: Path, index: Path, limit: int, clock: Clock, masker: Masker) -> None:
        """Open or continue a log that keeps ``limit`` bytes, and notices."""
        self._limit = limit
        self._share = share_of_output(limit, masker)
        self._room = self._share.head + min(self._share.tail // 2, _MAX_NOTICES)
        self._clock = clock
        self._masker = masker
        self._chunk = max(_RECORD_BYTES, 2 * masker.longest)
        self._lock = threading.Lock()
        self._pending = b""
        self._late = _Late(self._share.tail + self._share.margin)
        self._folder = log.parent
        self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._index = os.open(index, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._records, last = _last_whole(self._log, self._index)
        self._size = last.end
        self._stored = last.output_end
        self._synced = self._records == 0  # an earlier process may have died before it synced
        self._cut()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the log; after an exception close it, for the next writer to continue."""
        if kind is None:
            self.end()
        else:
            self.close()

    @property
    def output_offset(self) -> int:
        """Offset in the command's output of the next `output`. After a crash: past the last stored byte."""
        return self._stored + len(self._pending) + self._late.size

    @property
    def size(self) -> int:
        """Size of the log in bytes, notices included."""
        return self._size

    def begin_anew(self) -> None:
        """Forget what the log has, if that includes output: the command is started for the first time.

        After a power cut an attempt may begin again, whose first beginning the database has forgotten.
        """
        with self._lock:
            if self._stored:
                self._size = self._stored = self._records = 0
                self._cut()

    def output(self, *pieces: bytes | memoryview) -> None:
        """Append output of the command, masked; keep the start of a possible secret or UTF-8 character.

        The pieces follow each other, and are written together. Raises OSError if the disk is full: the caller then
        sends the output again, from ``output_offset`` on.
        """
        with self._lock:
            pending, self._pending = self._pending, b""
            batch = self._batch()
            late: list[bytes | memoryview] = []
            for piece in pieces:
                if self._late or late:
                    late.append(piece)
                    continue
                data = pending + piece if pending else piece
                consumed, full = self._add_output(batch, data)
                pending = bytes(data[consumed:])
                if full:
                    late.append(pending)
                    pending = b""
            self._append(batch)
            self._pending = pending
            for each in late:
                self._late.add(each)

    def leave_out(self, count: int) -> None:
        """Note that so many bytes of output, from ``output_offset`` on, do not come."""
        with self._lock:
            self._late.leave_out(len(self._pending) + count)
            self._pending = b""

    def notice(self, text: str) -> None:
        """Append a notice of the service, masked, on a line of its own."""
        with self._lock:
            batch = self._batch()
            self._add_notice(batch, text)
            self._append(batch)

    def notice_pause(self) -> None:
        """Say that the log's head is full, unless that was the last thing said: more output comes at the end."""
        text = (
            f"The log has reached {self._share.head} bytes. It goes on when the command has ended, with the last"
            f" {self._share.tail} bytes of its output."
        )
        with self._lock:
            line = text.encode() + b"\n"
            if os.pread(self._log, len(line), max(0, self._size - len(line))) != line:
                batch = self._batch()
                self._add_notice(batch, text)
                self._append(batch)

    def end(self) -> None:
        """Append the bytes that wait, because no more output comes; sync and close the files. Idempotent.

        Raises OSError if the disk is full: the next writer gets those bytes again.
        """
        with self._lock:
            if self._log < 0:
                return
            pending, self._pending = self._pending, b""
            batch = self._batch()
            try:
                self._add_last(batch, pending)
                self._append(batch)
                self._late.clear()
            finally:
                self._close()

    def close(self) -> None:
        """Sync and close the files without the pending bytes. Idempotent.

        The next writer's ``output_offset`` is before the pending bytes, so that they come again.
        """
        with self._lock:
            self._pending = b""
            self._late.clear()
            if self._log >= 0:
                self._close()

    def _close(self) -> None:
        try:
            self._sync()
        finally:
            os.close(self._log)
            os.close(self._index)
            self._log = self._index = -1

    def _sync(self) -> None:
        """Sync what was written: the log before its index, then their names and those of the folders above."""
        if self._synced:
            return
        for file in (self._log, self._index):
            os.fsync(file)
        job, build = self._folder, self._folder.parent
        for folder in (job, build, build.parent):
            with suppress(FileNotFoundError):  # the log was removed meanwhile
                sync_folder(folder)
        self._synced = True

    def _cut(self) -> None:
        """Cut off what has no record."""
        if os.fstat(self._log).st_size != self._size:
            self._synced = False
        os.ftruncate(self._log, self._size)
        os.ftruncate(self._index, record_offset(self._records))

    def _batch(self) -> _Batch:
        return _Batch(self._size, self._stored, to_micros(self._clock.now()) * 1000)

    def _add_output(self, batch: _Batch, data: bytes | memoryview) -> tuple[int, bool]:
        """Add output up to the head; return the number of its bytes, and if the rest is past it."""
        done = 0
        while done < len(data):
            room = self._share.head - batch.output_end
            chunk = data[done : done + min(self._chunk, room)]
            whole = len(chunk) - _incomplete_tail(chunk)
            masked, consumed = self._masker.mask(chunk[:whole], more=True)
            if batch.end + len(masked) > self._room:
                return done, True
            if not consumed:
                return done, len(data) - done >= room
            batch.add(masked, LogKind.OUTPUT, consumed)
            done += consumed
        return done, False

    def _add_last(self, batch: _Batch, pending: bytes) -> None:
        """Add the end of the output, after a notice if the middle is missing, or the log gets too long."""
        end = batch.output_end + len(pending) + self._late.size
        output = pending + self._late.bytes()
        masked = bytes(self._masker.mask(output, more=False)[0])
        room = max(self._share.tail, self._limit - batch.end)
        if self._late.left_out or len(masked) > room:
            # What is missing may end with the beginning of a secret.
            margin = self._share.margin if self._late.left_out else 0
            masked = _from_line_start(masked[max(margin, len(masked) - self._share.tail) :])
            count = max(0, end - batch.output_end - len(masked))
            self._add_notice(batch, f"{count} bytes of output are left out here: the log keeps {self._limit}.")
        while masked:
            piece = masked[: self._chunk]
            piece = piece[: len(piece) - _incomplete_tail(piece)] if len(piece) < len(masked) else piece
            masked = masked[len(piece) :]
            # Only the last record consumes output: after a crash before it, all of it comes again.
            batch.add(piece, LogKind.OUTPUT, 0 if masked else end - batch.output_end)

    def _add_notice(self, batch: _Batch, text: str) -> None:
        if batch.data:
            fresh_line = batch.data[-1][-1:] == b"\n"
        else:
            fresh_line = self._size == 0 or os.pread(self._log, 1, self._size - 1) == b"\n"
        line = text if fresh_line else "\n" + text
        batch.add(self._masker.masked(line).encode() + b"\n", LogKind.NOTICE, 0)

    def _append(self, batch: _Batch) -> None:
        """Write a batch, the log with one call and the index with another: each lets other threads run first."""
        if batch.data:
            self._synced = False
            _write_at(self._log, batch.data, self._size)
            _write_at(self._index, batch.records, record_offset(self._records))
        self._records += len(batch.records)
        self._size = batch.end
        self._stored = batch.output_end


class _Batch:
    """Records to append together: nothing of the writer changes unless all of them are written."""

    def __init__(self, end: int, output_end: int, time_ns: int) -> None:
        self.end = end
        self.output_end = output_end
        self.data: list[bytes | memoryview] = []
        self.records: list[bytes] = []
        self._time_ns = time_ns

    def add(self, data: bytes | memoryview, kind: LogKind, output_bytes: int) -> None:
        """Add a record, unless it is empty."""
        if data:
            self.end += len(data)
            self.output_end += output_bytes
            self.data.append(data)
            self.records.append(LogRecord(self.end, self.output_end, self._time_ns, kind).pack())


class _Late:
    """Output past the head of its share: the last ``keep`` bytes of it."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._bytes = bytearray()
        self._begun = False
        self.left_out = 0
        """The number of bytes that are missing before it."""

    def __bool__(self) -> bool:
        return self._begun

    @property
    def size(self) -> int:
        return self.left_out + len(self._bytes)

    def add(self, data: bytes | memoryview) -> None:
        self._begun = True
        self._bytes += data
        if len(self._bytes) > 2 * self._keep:
            self._trim()

    def leave_out(self, count: int) -> None:
        self._begun = True
        self.left_out += len(self._bytes) + count
        self._bytes.clear()

    def bytes(self) -> bytes:
        self._trim()
        return bytes(self._bytes)

    def clear(self) -> None:
        self._bytes.clear()
        self._begun, self.left_out = False, 0

    def _trim(self) -> None:
        surplus = max(0, len(self._bytes) - self._keep)
        del self._bytes[:surplus]
        self.left_out += surplus


def _write_at(file: int, pieces: Sequence[bytes | memoryview], offset: int) -> None:
    written = 0
    for start in range(0, len(pieces), _MAX_PIECES):
        some = pieces[start : start + _MAX_PIECES]
        end = written + sum(map(len, some))
        done = written + os.pwritev(file, some, offset + written)
        while done < end:
            rest = b"".join(some)[done - end :]
            done += os.pwrite(file, rest, offset + done)
        written = end


def _last_whole(log: int, index: int) -> tuple[int, LogRecord]:
    """Return the number of sound records and the last one: whole, not empty, with its bytes in the log."""
    log_size = os.fstat(log).st_size
    nothing = LogRecord(end=0, output_end=0, time_ns=0, kind=LogKind.NOTICE)
    for count in range(record_count(index), 0, -1):
        last = read_records(index, count - 1, 1)[0]
        before = read_records(index, count - 2, 1)[0] if count > 1 else nothing
        if before.end < last.end <= log_size:
            return count, last
    return 0, nothing


def _from_line_start(data: bytes) -> bytes:
    """Return data from the first line on that begins soon, else from its first character."""
    newline = data.find(b"\n", 0, min(_RECORD_BYTES, len(data) - 1)) if data else -1
    if newline >= 0:
        return data[newline + 1 :]
    start = next((place for place, byte in enumerate(data[:4]) if byte not in _CONTINUATION), 0)
    return data[start:]


def _incomplete_tail(data: bytes | memoryview) -> int:
    """Return how many bytes at the end, at most 3, are an incomplete UTF-8 character."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte not in _CONTINUATION:
            return length if length < _character_bytes(byte) else 0
    return 0


def _character_bytes(lead: int) -> int:
    return next((size for size, leads in _LEADS.items() if lead in leads), 1)
