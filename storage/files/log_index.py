"""The index of a log file: the end, kind and time of each record in it."""

from __future__ import annotations

import os
import struct
from enum import IntEnum

from storage.data_classes import immutable

_FORMAT = struct.Struct("<QQqB7x")


class LogKind(IntEnum):
    """The kinds of log records: output of the command, or a notice of the service."""

    OUTPUT = 0
    NOTICE = 2


@immutable
class LogRecord:
    """A range of a log file. It starts where the previous record ends.

    ``end`` is a byte offset in the log file, ``output_end`` one in the command's whole output, and ``time_ns`` is in
    nanoseconds since the epoch.
    """

    end: int
    output_end: int
    time_ns: int
    kind: LogKind

    def pack(self) -> bytes:
        """Return the record's bytes in the index, of fixed size."""
        return _FORMAT.pack(self.end, self.output_end, self.time_ns, self.kind)


def record_count(index: int) -> int:
    """Return the number of whole records in an open index file."""
    return os.fstat(index).st_size // _FORMAT.size


def record_offset(position: int) -> int:
    """Return the byte offset of a record in its index."""
    return position * _FORMAT.size


def read_records(index: int, position: int, count: int) -> list[LogRecord]:
    """Return up to ``count`` whole records of an open index file, starting at a position."""
    raw = os.pread(index, count * _FORMAT.size, record_offset(position))
    whole = len(raw) - len(raw) % _FORMAT.size
    return [
        LogRecord(end, output_end, time_ns, LogKind(kind))
        for end, output_end, time_ns, kind in _FORMAT.iter_unpack(raw[:whole])
    ]
