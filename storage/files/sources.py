"""Source archives: one file per build, and its manifest, kept as long as a disk holds the source."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from storage.errors import DatabaseUnavailable
from storage.files.kinds import SOURCES, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from pathlib import Path

__all__ = ["ARCHIVE", "MANIFEST", "PARTIAL", "PARTIAL_MANIFEST", "Sources"]

_SUFFIX = ".tar.gz"
_MANIFEST = ".manifest"

ARCHIVE = FileKind(
    SOURCES,
    f"{{build}}{_SUFFIX}",
    "SELECT uuid FROM builds WHERE finished_at IS NULL AND has_source = 1",
    always=True,
)
PARTIAL = FileKind(SOURCES, "{build}.partial")
MANIFEST = FileKind(SOURCES, f"{{build}}{_MANIFEST}")
"""Without rows: it is useful only with disks, which backups leave out."""

PARTIAL_MANIFEST = FileKind(SOURCES, f"{{build}}{_MANIFEST}.{{token}}.partial")
_TRANSIENT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


class Sources:
    """The archives that callers sent with their builds, and their manifests. Safe in any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, build_uuid: str) -> Path:
        """Return the path of a build's archive, which need not exist."""
        return self._directory / ARCHIVE.name(build_uuid)

    def manifest(self, build_uuid: str) -> Path:
        """Return the path of the manifest of a build's archive, which need not exist."""
        return self._directory / MANIFEST.name(build_uuid)

    def store(self, build_uuid: str, archive: bytes | Iterable[bytes]) -> None:
        """Write an archive, given whole or in chunks; its file appears complete or not at all.

        The manifest of an earlier archive is removed. Raises DatabaseUnavailable if the disk is full or read-only.
        """
        path = self.path(build_uuid)
        self.remove_manifest(build_uuid)
        partial = self._directory / PARTIAL.name(build_uuid)
        try:
            with partial.open("wb") as file:
                file.writelines((archive,) if isinstance(archive, bytes) else archive)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        except BaseException as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRORS:
                raise DatabaseUnavailable(f"the source archive cannot be written now: {error.strerror}") from error
            raise

    def all(self) -> list[str]:
        """Return the UUIDs of the builds that have an archive."""
        return self._builds_with(_SUFFIX)

    def manifests(self) -> list[str]:
        """Return the UUIDs of the builds whose archive has a manifest."""
        return self._builds_with(_MANIFEST)

    def remove_orphans(self, before: datetime, build: Callable[[str], object | None]) -> list[str]:
        """Remove files older than an instant for which ``build`` finds no build; return their names.

        A newer file may be about to get its build, which is written after it.
        """
        removed = []
        for path in self._directory.iterdir():
            build_uuid = path.name.removesuffix(_SUFFIX).removesuffix(_MANIFEST)
            if build_uuid != path.name and build(build_uuid) is not None:
                continue
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before.timestamp():
                    path.unlink()
                    removed.append(path.name)
        return removed

    def remove(self, build_uuid: str) -> None:
        """Delete a build's archive, if there is one."""
        self.path(build_uuid).unlink(missing_ok=True)

    def remove_manifest(self, build_uuid: str) -> None:
        """Delete the manifest of a build's archive, if there is one."""
        self.manifest(build_uuid).unlink(missing_ok=True)

    def _builds_with(self, suffix: str) -> list[str]:
        return sorted(path.name.removesuffix(suffix) for path in self._directory.glob(f"*{suffix}"))
