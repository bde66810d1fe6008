"""Logs: a file and an index per attempt, read as one log per job (engine.md, "Logs")."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from storage.data_classes import immutable
from storage.files.kinds import INDEX, LOG, SERVICE_INDEX, SERVICE_LOG, FileKind
from storage.files.log_index import LogKind, LogRecord, read_records, record_count
from storage.files.log_writer import LogWriter, OutputShare, share_of_output
from storage.files.masking import Masker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.database.clock import Clock

_RECORDS_PER_READ = 512
_NOTHING_HIDDEN = Masker()


@immutable
class LogChunk:
    """A record of a job's log; ``seq`` is the byte offset of its end in the whole log."""

    seq: int
    kind: LogKind
    content: bytes
    time_ns: int


@immutable
class _Part:
    """One attempt's part of a job's log: bytes ``start`` to ``start + size`` of the whole."""

    log: Path
    index: Path
    start: int
    size: int
    records: int


class LogFiles:
    """The logs of all jobs, in one directory; an attempt's keeps ``limit`` bytes. Safe in any thread."""

    def __init__(self, directory: Path, limit: int, clock: Clock) -> None:
        self._directory = directory
        self._limit = limit
        self._clock = clock

    def writer(self, build_uuid: str, job_uuid: str, attempt: int, masker: Masker = _NOTHING_HIDDEN) -> LogWriter:
        """Open an attempt's log for appending, after repairing what a crash left; end or close it when done.

        The ``masker`` must be the same each time.
        """
        return self._writer((LOG, INDEX), masker, build_uuid, job_uuid, attempt)

    def service_writer(
        self, build_uuid: str, job_uuid: str, service: str, attempt: int, masker: Masker = _NOTHING_HIDDEN
    ) -> LogWriter:
        """Open the log of a service of an attempt, as `writer` does that of the attempt."""
        return self._writer((SERVICE_LOG, SERVICE_INDEX), masker, build_uuid, job_uuid, service, attempt)

    def _writer(self, kinds: tuple[FileKind, FileKind], masker: Masker, *parts: str | int) -> LogWriter:
        log, index = (self._directory / kind.name(*parts) for kind in kinds)
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return LogWriter(log, index, self._limit, self._clock, masker)

    def share_of_output(self, masker: Masker) -> OutputShare:
        """Return the share of a command's output that a log keeps."""
        return share_of_output(self._limit, masker)

    def reader(self, build_uuid: str, job_uuid: str) -> JobLog:
        """Return a job's log, which may be empty and may grow while it is read."""
        return JobLog(self._directory / build_uuid / job_uuid)

    def service_reader(self, build_uuid: str, job_uuid: str, service: str) -> JobLog:
        """Return the log of a service of a job, as `reader` does that of the job."""
        return JobLog(self._directory / build_uuid / job_uuid / "services" / service)

    def of(self, build_uuid: str, job_uuid: str, service: str | None) -> JobLog:
        """Return the log of a service of a job, or of the job if ``service`` is None."""
        return (
            self.reader(build_uuid, job_uuid) if service is None else self.service_reader(build_uuid, job_uuid, service)
        )

    def builds(self) -> Iterator[str]:
        """Yield the UUID of every build that has logs."""
        with os.scandir(self._directory) as entries:
            yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def bytes_of(self, build_uuid: str) -> int:
        """Return the size of a build's logs in bytes, indexes included; 0 if it has none."""
        return sum(file.stat().st_size for file in (self._directory / build_uuid).rglob("*.*"))

    def remove(self, build_uuid: str) -> None:
        """Delete a build's logs, if there are any."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._directory / build_uuid)


class JobLog:
    """The log of a job: its attempts' logs one after the other. Safe in any thread; keeps no file open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._known: list[_Part] = []

    def exists(self) -> bool:
        """Tell whether any attempt's log exists, even an empty one."""
        return bool(_parts(self.directory))

    @property
    def files(self) -> list[Path]:
        """The files of its attempts that there are, in order."""
        return [each.log for each in _parts(self.directory)]

    def size(self) -> int:
        """Return how many bytes the log has now."""
        self._known = _parts(self.directory)
        return _size(self._known)

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``; fewer at the end of the log."""
        if start + length > _size(self._known):  # else it has what it had, as a log only grows
            self._known = _parts(self.directory)
        pieces: list[bytes] = []
        for part in self._known:
            offset = start - part.start
            if offset >= part.size or length <= 0:
                continue
            with _opened(part.log) as log:
                piece = _read_exactly(log, offset, min(length, part.size - offset))
            pieces.append(piece)
            start += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def chunks(self, after: int = 0) -> Iterator[LogChunk]:
        """Yield the log's records past byte ``after``, up to the end that the log has when it is read."""
        for part in _parts(self.directory):
            if part.start + part.size > after:
                yield from _chunks(part, max(0, after - part.start))


def _size(parts: list[_Part]) -> int:
    return parts[-1].start + parts[-1].size if parts else 0


def _chunks(part: _Part, after: int) -> Iterator[LogChunk]:
    with _opened(part.log) as log, _opened(part.index) as index:
        position = _first_past(index, after)
        while after < part.size:
            records = read_records(index, position, _RECORDS_PER_READ)
            if not records:
                return
            for record in records:
                content = _read_exactly(log, after, record.end - after)
                yield LogChunk(part.start + record.end, record.kind, content, record.time_ns)
                after = record.end
                position += 1


def _first_past(index: int, offset: int) -> int:
    """Return the position of the first record that ends past an offset."""
    low, high = 0, record_count(index)
    while low < high:
        middle = (low + high) // 2
        if _record(index, middle).end > offset:
            high = middle
        else:
            low = middle + 1
    return low


def _record(index: int, position: int) -> LogRecord:
    return read_records(index, position, 1)[0]


def _parts(directory: Path) -> list[_Part]:
    """Return the attempts' logs, first to last."""
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []
    parts: list[_Part] = []
    start = 0
    for attempt in sorted(int(name.removesuffix(".idx")) for name in names if name.endswith(".idx")):
        path = directory / f"{attempt}.idx"
        with _opened(path) as index:
            count = record_count(index)
            size = _record(index, count - 1).end if count else 0
        parts.append(_Part(path.with_suffix(".log"), path, start, size, count))
        start += size
    return parts


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def _read_exactly(file: int, offset: int, length: int) -> bytes:
    pieces: list[bytes] = []
    while length > 0:
        piece = os.pread(file, length, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return b"".join(pieces)
