"""The files of artifacts: one folder per build, one file per artifact, named by its UUID."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.files.kinds import ARTIFACT, sync_folder
from storage.records.builds import NewArtifact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path


class ArtifactFiles:
    """Artifact files on disk. Safe in any thread.

    A file is written before its row and removed after it: a file without a row is new, or left behind by a crash.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, build_uuid: str, uuid: str) -> Path:
        """Return the path of an artifact's file, which need not exist."""
        return self._directory / ARTIFACT.name(build_uuid, uuid)

    def write(self, build_uuid: str, path: str, chunks: Iterable[bytes]) -> NewArtifact:
        """Write a file. If writing or iterating over the chunks fails, the file is removed."""
        new = self._place(build_uuid)
        digest = hashlib.sha256()
        try:
            with new.open("xb", buffering=0) as file:
                for chunk in chunks:
                    digest.update(chunk)
                    _write_all(file.fileno(), chunk)
                os.fsync(file.fileno())
                size = file.tell()
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        return NewArtifact(new.name, path, size, digest.hexdigest())

    def link(self, source: Path, build_uuid: str) -> str:
        """Hard-link a file into a build; return the UUID of the new artifact. Raises FileNotFoundError."""
        new = self._place(build_uuid)
        os.link(source, new)
        return new.name

    def sync(self, build_uuid: str) -> None:
        """Sync the folders of a build's files, so that the names survive a crash as the bytes do."""
        for folder in (self._directory / build_uuid, self._directory):
            with suppress(FileNotFoundError):
                sync_folder(folder)

    def remove(self, build_uuid: str, uuids: Iterable[str]) -> None:
        """Remove files; missing ones are ignored."""
        for uuid in uuids:
            self.path(build_uuid, uuid).unlink(missing_ok=True)

    def remove_build(self, build_uuid: str) -> None:
        """Remove all files of a build, if there are any. Raises OSError if one of them cannot be removed."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._directory / build_uuid)

    def builds(self) -> list[str]:
        """Return the UUIDs of the builds that have files."""
        with suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return []

    def older(self, build_uuid: str, before: datetime) -> Iterator[str]:
        """Yield the names of a build's files that were last written before an instant."""
        with suppress(FileNotFoundError), os.scandir(self._directory / build_uuid) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_ctime < before.timestamp():
                        yield entry.name

    def _place(self, build_uuid: str) -> Path:
        place = self.path(build_uuid, str(uuid4()))
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place


def _write_all(descriptor: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
