"""Files of a state directory: names, kinds, durable changes, and whether there is room for more."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from storage.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

ARTIFACTS = "artifacts"
KEPT_FOLDERS = "kept"
DATABASE = "ci-daemon.sqlite3"
KEY = "secret.key"
LOGS = "logs"
SOURCES = "sources"
WORKSPACES = "workspaces"

_PART = r"[a-z0-9][a-z0-9-]{0,62}"
_PLACE = pattern(r"\{[a-z]+\}")

_FEW_INODES = 1000


@dataclass(frozen=True)
class FileKind:
    """One kind of file: the names of its files, and the rows that they belong to.

    Writers, backups and restores all take the names of files from here, so that no file is written that a backup does
    not know.

    ``folder`` is a folder of the state directory. ``template`` is the path in it, with variable parts in braces.
    ``rows`` is a SELECT of these parts, in their order, for all files that belong to rows. It is None if backups leave
    the files out: they exist only while another file is written, or are useless without something that backups leave
    out too. ``always`` means that each file of ``rows`` exists.
    """

    folder: str
    template: str
    rows: str | None = None
    always: bool = False

    def name(self, *parts: str | int) -> str:
        """Return the path of a file, relative to the folder. Raises ValueError if a part is invalid."""
        values = iter(parts)
        name = _PLACE.sub(lambda _: str(next(values)), self.template)
        if not self._pattern.fullmatch(name):
            raise ValueError(f"{name!r} does not match {self.template}")
        return name

    def has(self, path: str) -> bool:
        """Tell whether a path, relative to the state directory, is of this kind."""
        folder, _, name = path.partition("/")
        return folder == self.folder and self._pattern.fullmatch(name) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(_PART.join(map(re.escape, _PLACE.split(self.template))), re.ASCII)


RENDER_LOG = "render"
"""Takes the place of a job's UUID in the name of a render's log."""

_LOGS_OF_ROWS = f"""
SELECT builds.uuid, jobs.uuid, attempts.number
FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN builds ON builds.id = jobs.build_id
WHERE builds.logs_expired_at IS NULL
UNION ALL
SELECT builds.uuid, jobs.uuid, 0 FROM jobs JOIN builds ON builds.id = jobs.build_id
WHERE builds.logs_expired_at IS NULL AND jobs.cache_hit = 1 AND jobs.attempt = 0
UNION ALL
SELECT builds.uuid, '{RENDER_LOG}', 1 FROM renders JOIN builds ON builds.id = renders.build_id
WHERE builds.logs_expired_at IS NULL AND renders.finished_at IS NOT NULL
"""  # noqa: S608 - a constant

INDEX = FileKind(LOGS, "{build}/{job}/{attempt}.idx", _LOGS_OF_ROWS)
LOG = FileKind(LOGS, "{build}/{job}/{attempt}.log", _LOGS_OF_ROWS)
"""Copied after its index: readers ignore bytes that the index does not name yet."""

_SERVICE_LOGS_OF_ROWS = """
SELECT builds.uuid, jobs.uuid, services.key, attempts.number
FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN builds ON builds.id = jobs.build_id
JOIN json_each(jobs.services) AS services
WHERE builds.logs_expired_at IS NULL
"""

SERVICE_INDEX = FileKind(LOGS, "{build}/{job}/services/{service}/{attempt}.idx", _SERVICE_LOGS_OF_ROWS)
SERVICE_LOG = FileKind(LOGS, "{build}/{job}/services/{service}/{attempt}.log", _SERVICE_LOGS_OF_ROWS)
"""Copied after its index, as that of a job."""

ARCHIVE = FileKind(
    SOURCES,
    "{build}.tar.gz",
    "SELECT uuid FROM builds WHERE finished_at IS NULL AND has_source = 1",
    always=True,
)
"""Backups leave out the archives of finished builds, which only a rebuild needs."""

PARTIAL = FileKind(SOURCES, "{build}.partial")
MANIFEST = FileKind(SOURCES, "{build}.manifest")
"""Without rows: it is useful only with disks, which backups leave out."""

PARTIAL_MANIFEST = FileKind(SOURCES, "{build}.manifest.{token}.partial")

ARTIFACT = FileKind(
    ARTIFACTS,
    "{build}/{artifact}",
    """
    SELECT builds.uuid, artifacts.uuid FROM artifacts JOIN builds ON builds.id = artifacts.build_id
    WHERE builds.artifacts_expired_at IS NULL
    """,
    always=True,
)

KEPT_FOLDER = FileKind(KEPT_FOLDERS, "{folder}.tar")
"""Without rows: backups leave out what jobs can make anew."""

WORKSPACE = FileKind(WORKSPACES, "{build}/{job}.{content}.tar")
"""Without rows: it is useful only with disks, which backups leave out."""

PARTIAL_WORKSPACE = FileKind(WORKSPACES, "{build}/{job}.partial")

FILE_KINDS = (
    ARCHIVE,
    PARTIAL,
    MANIFEST,
    PARTIAL_MANIFEST,
    INDEX,
    LOG,
    SERVICE_INDEX,
    SERVICE_LOG,
    ARTIFACT,
    KEPT_FOLDER,
    WORKSPACE,
    PARTIAL_WORKSPACE,
)
"""In the order in which a backup may copy them."""


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a crash. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_EARLY_BYTES = 8 << 20
_SYNC_FILE_RANGE_WRITE = 2


def write_and_sync(file: BinaryIO, chunks: Iterable[bytes]) -> int:
    """Write chunks into an open file and sync it; return its size. Raises OSError, and as iterating does.

    The disk begins with what has come while more comes: then little is left to wait for at the end.
    """
    begun = written = 0
    for chunk in chunks:
        file.write(chunk)
        written += len(chunk)
        if written - begun >= _EARLY_BYTES:
            file.flush()
            _begin_to_write(file.fileno(), begun, written - begun)
            begun = written
    file.flush()
    os.fsync(file.fileno())
    return file.tell()


def _begin_to_write(descriptor: int, start: int, size: int) -> None:
    """Let the disk begin with a part of a file. It is a hint: the kernel may not know it."""
    import ctypes  # noqa: PLC0415 - only large files need it

    begin = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if begin is not None:
        begin(descriptor, ctypes.c_int64(start), ctypes.c_int64(size), _SYNC_FILE_RANGE_WRITE)


def sync_file_system(folder: Path) -> None:
    """Sync all files of the file system that a folder is on. Raises OSError.

    For trees that others wrote: to sync each of their files would take longer, and they may be unreadable.
    """
    import ctypes  # noqa: PLC0415 - only who keeps trees needs it

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), folder)
    finally:
        os.close(descriptor)


def why_no_files(state_dir: Path) -> str | None:
    """Return why the service cannot write files as jobs need them, as a phrase; None if it can.

    It looks at the state directory and its folders of files and VMs, which may be file systems of their own.
    """
    from storage.records.leases import PROVIDERS  # noqa: PLC0415 - only the service and `doctor` look

    of_vms = [f"{provider}/{name}" for provider in PROVIDERS for name in (".", "vms", "snapshots")]
    of_their_root = [f"{provider}/trees/{name}" for provider in PROVIDERS for name in (".", "disks", "snapshots")]
    for name in (".", LOGS, ARTIFACTS, SOURCES, *of_vms, *of_their_root):
        folder = state_dir / name
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except PermissionError:
            return f"the folder {folder} cannot be opened"
        if found.f_flag & os.ST_RDONLY:
            return f"the folder {folder} is on a read-only file system"
        if name not in of_their_root and not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {folder} cannot be written"
        if found.f_files and found.f_favail < _FEW_INODES:  # some file systems count none
            return f"the file system of {folder} has room for {found.f_favail} files (inodes), of {_FEW_INODES} needed"
    return None
