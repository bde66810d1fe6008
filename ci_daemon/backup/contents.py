"""The files of a state directory that a backup contains, and those that it leaves out on purpose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from actors.repositories import MIRRORS
from ci_daemon.backup.manifest import CONFIGURATION
from ci_daemon.host.lock import LOCK
from ci_daemon.host.place import PLACE
from ci_daemon.providers import IMAGES, VMS
from storage import FILE_KINDS
from storage.files import DATABASE, KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRATCH = ".backup"
STAGING = ".restoring"
FROM_BACKUP = f"{CONFIGURATION}.from-backup"

_SAVED = frozenset({DATABASE, KEY, CONFIGURATION})
_EXCLUDED = frozenset(
    {
        f"{DATABASE}-wal",
        f"{DATABASE}-shm",
        LOCK,
        PLACE,
        f"{PLACE}.new",
        IMAGES,
        *VMS,
        MIRRORS,
        SCRATCH,
        STAGING,
        FROM_BACKUP,
        "lost+found",
    }
)
"""Names at the top of the directory. The copy of the database includes its write-ahead log."""


def is_saved(path: str) -> bool:
    """Tell whether a backup may contain a file, by its path below the state directory."""
    return path in _SAVED or any(kind.rows is not None and kind.has(path) for kind in FILE_KINDS)


def undeclared_files(directory: Path) -> Iterator[str]:
    """Yield the paths below a state directory of files that no code declares."""
    for folder, folders, files in os.walk(directory):
        below = Path(folder).relative_to(directory)
        left_out = frozenset() if below.parts else _EXCLUDED
        folders[:] = [name for name in folders if name not in left_out]
        links = [name for name in folders if below.parts and Path(folder, name).is_symlink()]
        for name in (*files, *links):
            path = (below / name).as_posix()
            if name not in left_out and path not in _SAVED and not any(kind.has(path) for kind in FILE_KINDS):
                yield path
