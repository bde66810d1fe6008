"""The index beside a log: where each record of it ends, what it is, and when it came."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["LogKind", "LogRecord", "read_records", "record_count", "record_offset"]

_FORMAT = struct.Struct("<QQqB7x")


class LogKind(IntEnum):
    """What a stretch of a log is: the command's output, or a notice of the service."""

    OUTPUT = 0
    NOTICE = 2


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A stretch of a log file. It starts where the one before it ends.

    ``end`` is a byte offset in the log file, ``guest_end`` one in all that the command has put out, ``time_ns`` is
    nanoseconds since the epoch.
    """

    end: int
    guest_end: int
    time_ns: int
    kind: LogKind

    def pack(self) -> bytes:
        """Return the record as it stands in the index, always of one size."""
        return _FORMAT.pack(self.end, self.guest_end, self.time_ns, self.kind)


def record_count(index: int) -> int:
    """Return how many whole records an open index file has."""
    return os.fstat(index).st_size // _FORMAT.size


def record_offset(position: int) -> int:
    """Return the byte offset of a record in its index."""
    return position * _FORMAT.size


def read_records(index: int, position: int, count: int) -> list[LogRecord]:
    """Return up to ``count`` whole records of an open index file, from a position on."""
    raw = os.pread(index, count * _FORMAT.size, record_offset(position))
    whole = len(raw) - len(raw) % _FORMAT.size
    return [
        LogRecord(end, guest_end, time_ns, LogKind(kind))
        for end, guest_end, time_ns, kind in _FORMAT.iter_unpack(raw[:whole])
    ]
