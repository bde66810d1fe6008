"""Writing an attempt's log so that log and index agree after a crash at any byte.

Bytes go to the log first, their records to the index after. Readers ignore bytes without a record, and the next writer
cuts them off. No record ends inside a masked secret or what may be the start of one, so that the next writer masks the
same bytes.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

from storage.database.instants import to_micros
from storage.files.log_index import LogKind, LogRecord, read_records, record_count, record_offset

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.database.clock import Clock
    from storage.files.masking import Masker

__all__ = ["LogWriter"]

_RECORD_BYTES = 128 * 1024
_MAX_PIECES = os.sysconf("SC_IOV_MAX")
_CONTINUATION = range(0x80, 0xC0)
_LEADS = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}


class LogWriter:
    """Appends to the log of one attempt, which has one writer at a time. Safe in any thread."""

    def __init__(self, log: Path, index: Path, limit: int, taken: int, clock: Clock, masker: Masker) -> None:
        """Open or continue a log. Its job keeps ``limit`` bytes, of which earlier attempts use ``taken``."""
        self._limit = limit
        self._room = max(0, limit - taken)
        self._clock = clock
        self._masker = masker
        self._chunk = max(_RECORD_BYTES, 2 * masker.longest)
        self._lock = threading.Lock()
        self._pending = b""
        self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._index = os.open(index, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._records, last = _last_whole(self._log, self._index)
        self._size = last.end
        self._stored = last.output_end
        self._limit_noted = taken + self._size > limit
        os.ftruncate(self._log, self._size)
        os.ftruncate(self._index, record_offset(self._records))

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
        return self._stored + len(self._pending)

    @property
    def size(self) -> int:
        """Size of the log in bytes, notices included."""
        return self._size

    def output(self, *pieces: bytes | memoryview) -> None:
        """Append output of the command, masked; keep the start of a possible secret or UTF-8 character.

        The pieces follow each other, and are written together. Past the limit, output is dropped after one notice that
        says so; ``output_offset`` continues to count. Raises OSError if the disk is full: the caller then sends the
        output again, from ``output_offset`` on.
        """
        with self._lock:
            pending, self._pending = self._pending, b""
            batch = self._batch()
            for piece in pieces:
                data = pending + piece if pending else piece
                consumed = self._add_output(batch, data, more=True)
                pending = bytes(data[consumed:])
            self._append(batch)
            self._pending = pending

    def notice(self, text: str) -> None:
        """Append a notice of the service, masked, on a line of its own."""
        with self._lock:
            batch = self._batch()
            self._add_notice(batch, text)
            self._append(batch)

    def end(self) -> None:
        """Append the pending bytes, because no more output comes, and close the files. Idempotent.

        If the output passed the limit, the pending bytes are dropped: they may be half of a secret.
        """
        with self._lock:
            if self._log < 0:
                return
            pending, self._pending = self._pending, b""
            batch = self._batch()
            try:
                if self._stored + len(pending) > self._limit:
                    self._drop(batch, len(pending))
                else:
                    self._add_output(batch, pending, more=False)
                self._append(batch)
            finally:
                self._close()

    def close(self) -> None:
        """Close the files without the pending bytes. Idempotent.

        The next writer's ``output_offset`` is before the pending bytes, so that they come again.
        """
        with self._lock:
            self._pending = b""
            if self._log >= 0:
                self._close()

    def _close(self) -> None:
        os.close(self._log)
        os.close(self._index)
        self._log = self._index = -1

    def _batch(self) -> _Batch:
        return _Batch(self._size, self._stored, to_micros(self._clock.now()) * 1000)

    def _add_output(self, batch: _Batch, data: bytes | memoryview, *, more: bool) -> int:
        """Add output; return how many bytes were consumed. The rest waits if ``more`` comes."""
        done = 0
        while done < len(data):
            chunk = data[done : done + self._chunk]
            follows = more or done + len(chunk) < len(data)
            whole = len(chunk) - _incomplete_tail(chunk) if follows else len(chunk)
            room = max(0, self._room - batch.end)
            masked, consumed = self._masker.mask(chunk[:whole], more=follows) if room else (chunk, len(chunk))
            if not consumed:
                break
            if len(masked) > room:
                # The record consumes no output, so that the next writer meets the limit too.
                batch.add(masked[:room], LogKind.OUTPUT, 0)
                self._drop(batch, len(data) - done)
                return len(data)
            batch.add(masked, LogKind.OUTPUT, consumed)
            done += consumed
        return done

    def _drop(self, batch: _Batch, output_bytes: int) -> None:
        """Count dropped output, and add the notice of the limit once."""
        batch.output_end += output_bytes
        if not self._limit_noted:
            batch.limit_noted = True
            self._add_notice(batch, f"The log reached its limit of {self._limit} bytes: further output is not kept.")

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
            _write_at(self._log, batch.data, self._size)
            _write_at(self._index, batch.records, record_offset(self._records))
        self._records += len(batch.records)
        self._size = batch.end
        self._stored = batch.output_end
        self._limit_noted = self._limit_noted or batch.limit_noted


class _Batch:
    """Records to append together: nothing of the writer changes unless all of them are written."""

    def __init__(self, end: int, output_end: int, time_ns: int) -> None:
        self.end = end
        self.output_end = output_end
        self.limit_noted = False
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


def _incomplete_tail(data: bytes | memoryview) -> int:
    """Return how many bytes at the end, at most 3, are an incomplete UTF-8 character."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte not in _CONTINUATION:
            return length if length < _character_bytes(byte) else 0
    return 0


def _character_bytes(lead: int) -> int:
    return next((size for size, leads in _LEADS.items() if lead in leads), 1)
