"""Workspaces that jobs leave to others, a tar for each (engine.md, "Shared workspaces").

The name of a tar has the job and a hash of its content, if somebody asks for that; no row names it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from storage.files.kinds import PARTIAL_WORKSPACE, WORKSPACE, sync_folder, write_and_sync

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_UNKNOWN = "0"
_HASH_CHARS = 40


class Workspace(NamedTuple):
    """A workspace that is kept: its tar, its bytes, a hash of its content, None if nobody asked for it."""

    path: Path
    size: int
    content: str | None


class Workspaces:
    """The workspaces that jobs leave to others. Safe in any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, build_uuid: str, job_uuid: str, chunks: Iterable[bytes], content: str | None) -> int:
        """Write the tar of a job's workspace in place of an earlier one; return its size. Raises OSError.

        It appears complete and synced, or not at all.
        """
        folder = self._directory / build_uuid
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = self._directory / PARTIAL_WORKSPACE.name(build_uuid, job_uuid)
        name = WORKSPACE.name(build_uuid, job_uuid, _UNKNOWN if content is None else content[:_HASH_CHARS])
        try:
            with partial.open("wb") as file:
                size = write_and_sync(file, chunks)
            self.discard(build_uuid, job_uuid)
            partial.rename(self._directory / name)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        sync_folder(folder)
        return size

    def find(self, build_uuid: str, job_uuid: str) -> Workspace | None:
        """Return the workspace that a job has left; None if there is none."""
        for path in self._of_job(build_uuid, job_uuid):
            with suppress(FileNotFoundError):
                content = path.name.split(".")[1]
                return Workspace(path, path.stat().st_size, None if content == _UNKNOWN else content)
        return None

    def discard(self, build_uuid: str, job_uuid: str) -> None:
        """Remove what a job has left, if there is any."""
        for path in self._of_job(build_uuid, job_uuid):
            path.unlink(missing_ok=True)

    def builds(self) -> list[str]:
        """Return the UUIDs of the builds that have workspaces here."""
        with suppress(FileNotFoundError):
            return sorted(path.name for path in self._directory.iterdir())
        return []

    def remove(self, build_uuid: str) -> None:
        """Remove all of a build."""
        shutil.rmtree(self._directory / build_uuid, ignore_errors=True)

    def _of_job(self, build_uuid: str, job_uuid: str) -> list[Path]:
        return list((self._directory / build_uuid).glob(f"{job_uuid}.*.tar"))
