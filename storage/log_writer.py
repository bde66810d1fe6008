"""Writing one attempt's log so that a crash at any byte leaves a log and an index that agree.

Bytes go to the log first, their record to the index after. What the index does not name is not there for a reader,
and is cut off by the next writer. No record ends inside of what is masked, or may be, so that the next writer masks the
same.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

from storage.instants import to_micros
from storage.log_index import LogKind, LogRecord, read_records, record_count, record_offset

if TYPE_CHECKING:
    from pathlib import Path

    from storage.clock import Clock
    from storage.masking import Masker

__all__ = ["LogWriter"]

_RECORD_BYTES = 64 * 1024
_CONTINUATION = range(0x80, 0xC0)
_LEADS = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}


class LogWriter:
    """Appends to the log of one attempt. Safe in any thread; one writer an attempt."""

    def __init__(self, log: Path, index: Path, limit: int, taken: int, clock: Clock, masker: Masker) -> None:
        """Open or continue a log whose job keeps ``limit`` bytes, of which earlier attempts took ``taken``."""
        self._limit = limit
        self._room = max(0, limit - taken)
        self._clock = clock
        self._masker = masker
        self._block = max(_RECORD_BYTES, 2 * masker.longest)
        self._lock = threading.Lock()
        self._held = b""
        self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._index = os.open(index, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._records, last = _last_whole(self._log, self._index)
        self._size = last.end
        self._stored = last.guest_end
        self._limit_told = taken + self._size > limit
        os.ftruncate(self._log, self._size)
        os.ftruncate(self._index, record_offset(self._records))

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the log; where something went wrong, leave it to another writer."""
        if kind is None:
            self.end()
        else:
            self.close()

    @property
    def guest_offset(self) -> int:
        """Where in the command's output the next ``output`` goes on. After a crash: past the last byte stored."""
        return self._stored + len(self._held)

    @property
    def size(self) -> int:
        """How many bytes the log has, notices included."""
        return self._size

    def output(self, data: bytes) -> None:
        """Append what the command put out, masked. What cannot be masked, or read, without its rest waits for it.

        Past the limit the output is dropped, after one notice that says so; ``guest_offset`` goes on counting. Raises
        OSError where the disk is full: what was not stored is to come again, from ``guest_offset`` on.
        """
        with self._lock:
            data, self._held = self._held + data, b""
            self._held = data[self._append_output(data, more=True) :]

    def notice(self, text: str) -> None:
        """Append a sentence of the service, masked, on a line of its own."""
        with self._lock:
            self._append_notice(text)

    def end(self) -> None:
        """Append what waits, since no more output comes, and close the files. Idempotent.

        Of output that was cut off at the limit nothing of that is appended: it may be half of what is to be masked.
        """
        with self._lock:
            if self._log < 0:
                return
            held, self._held = self._held, b""
            try:
                if self._stored + len(held) > self._limit:
                    self._drop(len(held))
                else:
                    self._append_output(held, more=False)
            finally:
                self._close()

    def close(self) -> None:
        """Close the files; what waits is for the next writer, which goes on from its ``guest_offset``. Idempotent."""
        with self._lock:
            self._held = b""
            if self._log >= 0:
                self._close()

    def _close(self) -> None:
        os.close(self._log)
        os.close(self._index)
        self._log = self._index = -1

    def _append_output(self, data: bytes, *, more: bool) -> int:
        """Append output and return how much of it is done with; where ``more`` comes, the rest waits for it."""
        done = 0
        while done < len(data):
            block = data[done : done + self._block]
            follows = more or done + len(block) < len(data)
            whole = len(block) - _incomplete_tail(block) if follows else len(block)
            room = max(0, self._room - self._size)
            masked, consumed = self._masker.mask(block[:whole], more=follows) if room else (block, len(block))
            if not consumed:
                break
            if len(masked) > room:
                self._append(masked[:room], LogKind.OUTPUT, 0)  # a writer that comes back meets the limit again
                self._drop(len(data) - done)
                return len(data)
            self._append(masked, LogKind.OUTPUT, consumed)
            done += consumed
        return done

    def _drop(self, output_bytes: int) -> None:
        """Count output that is not kept, and say so once."""
        self._stored += output_bytes
        if not self._limit_told:
            self._limit_told = True
            self._append_notice(f"The log reached its limit of {self._limit} bytes: further output is not kept.")

    def _append_notice(self, text: str) -> None:
        fresh_line = self._size == 0 or os.pread(self._log, 1, self._size - 1) == b"\n"
        line = text if fresh_line else "\n" + text
        self._append(self._masker.masked(line).encode() + b"\n", LogKind.NOTICE, 0)

    def _append(self, data: bytes, kind: LogKind, output_bytes: int) -> None:
        if not data:
            return
        record = LogRecord(
            end=self._size + len(data),
            guest_end=self._stored + output_bytes,
            time_ns=to_micros(self._clock.now()) * 1000,
            kind=kind,
        )
        _write_at(self._log, data, self._size)
        _write_at(self._index, record.pack(), record_offset(self._records))
        self._records += 1
        self._size = record.end
        self._stored = record.guest_end


def _write_at(file: int, data: bytes, offset: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(file, data[written:], offset + written)


def _last_whole(log: int, index: int) -> tuple[int, LogRecord]:
    """Return how many records are sound, and the last of them: whole, growing, and with all their bytes in the log."""
    log_size = os.fstat(log).st_size
    nothing = LogRecord(end=0, guest_end=0, time_ns=0, kind=LogKind.NOTICE)
    for count in range(record_count(index), 0, -1):
        last = read_records(index, count - 1, 1)[0]
        before = read_records(index, count - 2, 1)[0] if count > 1 else nothing
        if before.end < last.end <= log_size:
            return count, last
    return 0, nothing


def _incomplete_tail(data: bytes) -> int:
    """Return how many bytes at the end, at most 3, begin a UTF-8 character that is not all there."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte not in _CONTINUATION:
            return length if length < _character_bytes(byte) else 0
    return 0


def _character_bytes(lead: int) -> int:
    return next((size for size, leads in _LEADS.items() if lead in leads), 1)
