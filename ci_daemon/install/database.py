"""Copies of the database: made when a release is replaced, restored when it returns."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ci_daemon.install import account
from storage import frozen
from storage.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_daemon.install.host import Host
    from ci_daemon.install.release import Release


def has_newer_schema(host: Host, release: Release) -> bool:
    """Tell whether the database's schema is newer than the newest that a release knows."""
    if not host.database.exists():
        return False
    with frozen(host.state) as database:
        return database.schema_version > release.schema


def has_older_schema(host: Host, release: Release) -> bool:
    """Tell whether a release will change the database's schema."""
    if not host.database.exists():
        return False
    with frozen(host.state) as database:
        return database.schema_version < release.schema


def back_up(host: Host, copy: Path) -> None:
    """Copy the database into a file, which only root can read, and which appears complete or not at all."""
    temporary = copy.with_suffix(".part")
    temporary.unlink(missing_ok=True)
    with _new_file(temporary), frozen(host.state) as database:
        database.copy_to(temporary, lambda _bytes: None)
    temporary.replace(copy)
    sync_folder(copy.parent)


def restore(host: Host, release: Release) -> None:
    """Replace the database, which must not be in use, by a release's copy; the copy stays."""
    temporary = host.database.with_suffix(".restoring")
    temporary.unlink(missing_ok=True)
    with _new_file(temporary) as file, release.database.open("rb") as copy:
        shutil.copyfileobj(copy, file)
        os.fchown(file.fileno(), *account.ids(host))
    for journal in ("-wal", "-shm"):
        host.database.with_name(f"{host.database.name}{journal}").unlink(missing_ok=True)
    sync_folder(host.database.parent)  # the journals of the old one are gone before the new one is there
    temporary.replace(host.database)
    sync_folder(host.database.parent)


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Create a file that only its owner can read, and sync it to the disk at the end.

    No link is followed, because others may be able to write to its folder.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)
