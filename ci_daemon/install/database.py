"""The database when releases change: kept as the old one left it, and put back where the old one returns."""

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
    """Whether the database is past what a release knows."""
    if not host.database.exists():
        return False
    with frozen(host.state) as database:
        return database.schema_version > release.schema


def keep_for(host: Host, release: Release) -> None:
    """Keep the database as a release leaves it, in a file of its own that only root reads, whole or not at all."""
    part = release.database.with_suffix(".part")
    part.unlink(missing_ok=True)
    with _new_file(part), frozen(host.state) as database:
        database.copy_to(part, lambda _bytes: None)
    part.replace(release.database)


def put_back_of(host: Host, release: Release) -> None:
    """Replace the database, which nobody uses, by what a release left; what was kept stays."""
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
    """Make a file that only its owner reads, and see it on the disk in the end.

    Where others may write its folder, nobody's link is followed.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)
