"""Copies of the database: kept when a release is replaced, put back when it returns."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from ci_daemon.install import account
from storage import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_daemon.install.host import Host
    from ci_daemon.install.release import Release

__all__ = ["is_too_new_for", "keep_for", "put_back_of"]


def is_too_new_for(host: Host, release: Release) -> bool:
    """Tell whether the database's schema is newer than the newest that a release knows."""
    if not host.database.exists():
        return False
    with frozen(host.state) as database:
        return database.schema_version > release.schema


def keep_for(host: Host, release: Release) -> None:
    """Copy the database that a release leaves into the release's folder.

    Only root can read the copy. It appears complete or not at all.
    """
    part = release.database.with_suffix(".part")
    part.unlink(missing_ok=True)
    with _new_file(part), frozen(host.state) as database:
        database.copy_to(part, lambda _bytes: None)
    part.replace(release.database)


def put_back_of(host: Host, release: Release) -> None:
    """Replace the database, which must not be in use, by a release's copy; the copy stays."""
    arriving = host.database.with_suffix(".arriving")
    arriving.unlink(missing_ok=True)
    with _new_file(arriving) as into, release.database.open("rb") as kept:
        shutil.copyfileobj(kept, into)
        os.fchown(into.fileno(), *account.ids(host))
    for journal in ("-wal", "-shm"):
        host.database.with_name(f"{host.database.name}{journal}").unlink(missing_ok=True)
    arriving.replace(host.database)


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
