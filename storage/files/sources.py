"""Source archives: one file per build, and its manifest, kept as long as a disk holds the source."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.errors import DatabaseUnavailable
from storage.files.kinds import ARCHIVE, MANIFEST, PARTIAL, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

_SUFFIX = ARCHIVE.template.removeprefix("{build}")
_MANIFEST = MANIFEST.template.removeprefix("{build}")
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
        """Write an archive, given whole or in chunks; its file appears complete and synced, or not at all.

        The manifest of an earlier archive is removed. Raises DatabaseUnavailable if the disk is full or read-only.
        """
        path = self.path(build_uuid)
        self.remove_manifest(build_uuid)
        partial = self._directory / PARTIAL.name(build_uuid)
        try:
            with _translated_disk_errors():
                with partial.open("wb") as file:
                    file.writelines((archive,) if isinstance(archive, bytes) else archive)
                    file.flush()
                    os.fsync(file.fileno())
                partial.rename(path)
                sync_folder(self._directory)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise

    @contextmanager
    def passing(self, archive: bytes) -> Iterator[tuple[Path, Path]]:
        """Keep an archive of no build while the body runs; yield its path, and one for its manifest.

        Nothing is synced: what a process leaves that is killed meanwhile is an orphan. Raises DatabaseUnavailable if
        the disk is full or read-only.
        """
        name = str(uuid4())
        path, manifest = self._directory / PARTIAL.name(name), self.manifest(name)
        try:
            with _translated_disk_errors():
                path.write_bytes(archive)
            yield path, manifest
        finally:
            path.unlink(missing_ok=True)
            manifest.unlink(missing_ok=True)

    def link(self, from_uuid: str, to_uuid: str) -> None:
        """Give a new build the archive of another one, as a hard link. Raises FileNotFoundError.

        Its time is made new first, because a file that is old and has no build yet is an orphan.
        """
        archive = self.path(from_uuid)
        os.utime(archive)
        os.link(archive, self.path(to_uuid))
        sync_folder(self._directory)

    def bytes_of(self, build_uuid: str) -> int:
        """Return the size of a build's archive; 0 if it has none."""
        with suppress(FileNotFoundError):
            return self.path(build_uuid).stat().st_size
        return 0

    def bytes_of_all(self, build_uuids: Iterable[str]) -> int:
        """Return what the archives of builds take on the disk; those that share one file count once."""
        sizes = {}
        for uuid in build_uuids:
            with suppress(FileNotFoundError):
                status = self.path(uuid).stat()
                sizes[status.st_ino] = status.st_size
        return sum(sizes.values())

    def all(self) -> list[str]:
        """Return the UUIDs of the builds that have an archive."""
        return self._builds_with(_SUFFIX)

    def manifests(self) -> list[str]:
        """Return the UUIDs of the builds whose archive has a manifest."""
        return self._builds_with(_MANIFEST)

    def remove_orphans(
        self, before: datetime, owners: Callable[[], Container[str]], build: Callable[[str], object | None]
    ) -> list[str]:
        """Remove files older than an instant that no build needs; return their names.

        An archive stays if its build is one of ``owners``, which is called once the files are listed; a manifest, if
        ``build`` finds its build. A newer file may be about to get its build, which is written after it.
        """
        removed = []
        paths = list(self._directory.iterdir())
        kept = owners()
        for path in paths:
            archived, of_manifest = path.name.removesuffix(_SUFFIX), path.name.removesuffix(_MANIFEST)
            if archived != path.name and archived in kept:
                continue
            if of_manifest != path.name and build(of_manifest) is not None:
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


@contextmanager
def _translated_disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _TRANSIENT_ERRORS:
            raise DatabaseUnavailable(f"the source archive cannot be written now: {error.strerror}") from error
        raise
