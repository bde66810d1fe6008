"""A program that cuts the power after each kind of file is written, and prints those that are lost.

`python -m tests.power.cut_files FOLDER` runs in a mount namespace of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ci_daemon.host.private_file import write_private
from storage import LogFiles, Storage, SystemClock
from storage.errors import StorageError
from storage.files import content_bytes, new_manifest, sync_file_system
from storage.files.artifacts import ArtifactFiles
from storage.files.sources import Sources
from tests.power.cut_disk import CutDisk

_CONTENT = b"content " * 10_000


def _link_archive(folder: Path) -> None:
    Sources(folder).store("build", _CONTENT)
    Sources(folder).link("build", "rebuild")


def _write_manifest(folder: Path) -> None:
    with new_manifest(folder / "manifest") as writer:
        writer.bytes = 7


def _write_artifact(folder: Path) -> None:
    files = ArtifactFiles(folder)
    files.write("build", "path", [_CONTENT])
    files.sync("build")


def _logs(folder: Path) -> LogFiles:
    return LogFiles(folder, 10**9, SystemClock())


def _end_log(folder: Path) -> None:
    with _logs(folder).writer("build", "job", 1) as writer:
        writer.output(_CONTENT)


def _end_log_of_another(folder: Path) -> None:
    """End a log whose first writer died before it could, with nothing more to write."""
    _logs(folder).writer("build", "job", 1).output(_CONTENT)
    _logs(folder).writer("build", "job", 1).end()


def _note_in_log(folder: Path) -> None:
    writer = _logs(folder).writer("build", "job", 1)
    writer.notice("a notice")
    writer.close()


def _write_tree(folder: Path) -> None:
    file = folder / "new" / "upper" / "file"
    file.parent.mkdir(parents=True)
    file.write_bytes(_CONTENT)
    (folder / "new").rename(folder / "kept")
    sync_file_system(folder)


def _add_user(folder: Path) -> None:
    """Add a row, and do not close the database, which would copy the write-ahead log into it."""
    Storage.create(folder / "state", SystemClock()).users.create("ada@example.org", "Ada")


def _log(folder: Path) -> bytes:
    return _logs(folder).reader("build", "job").read(0, 10**6)


def _has_user(folder: Path) -> bool:
    with closing(Storage.open(folder / "state", SystemClock())) as storage:
        return storage.users.by_email("ada@example.org") is not None


_KINDS: dict[str, tuple[Callable[[Path], object], Callable[[Path], bool]]] = {
    "archive": (
        lambda folder: Sources(folder).store("build", _CONTENT),
        lambda folder: Sources(folder).path("build").read_bytes() == _CONTENT,
    ),
    "linked archive": (_link_archive, lambda folder: Sources(folder).path("rebuild").read_bytes() == _CONTENT),
    "manifest": (_write_manifest, lambda folder: content_bytes(folder / "manifest") == 7),
    "artifact": (_write_artifact, lambda folder: next((folder / "build").iterdir()).read_bytes() == _CONTENT),
    "ended log": (_end_log, lambda folder: _log(folder) == _CONTENT),
    "ended log of another": (_end_log_of_another, lambda folder: _log(folder) == _CONTENT),
    "notice": (_note_in_log, lambda folder: _log(folder) == b"a notice\n"),
    "tree of others": (_write_tree, lambda folder: (folder / "kept/upper/file").read_bytes() == _CONTENT),
    "private file": (
        lambda folder: write_private(folder / "private", "secret"),
        lambda folder: (folder / "private").read_text() == "secret",
    ),
    "row": (_add_user, _has_user),
}
"""The functions that write each kind, and tell whether it is whole, both in a folder of its own."""


def _is_whole(disk: CutDisk, name: str) -> bool:
    write, check = _KINDS[name]
    folder = disk.mount / name.replace(" ", "-")
    folder.mkdir()
    sync_file_system(folder)
    if (writer := os.fork()) == 0:
        try:
            write(folder)
        finally:
            os._exit(0)  # with open files and databases, as when the power goes
    os.waitpid(writer, 0)
    disk.cut()
    disk.unplug()
    disk.plug_in()
    try:
        return check(folder)
    except (OSError, StorageError, StopIteration):
        return False


def _main(folder: Path) -> None:
    disk = CutDisk(folder, megabytes=200)
    try:
        json.dump([name for name in _KINDS if not _is_whole(disk, name)], sys.stdout)
    finally:
        disk.close()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
