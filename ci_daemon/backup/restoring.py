"""Restoring a backup into a state directory; it is proved on the way."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.contents import FROM_BACKUP, STAGING
from ci_daemon.backup.manifest import CONFIGURATION, BackupError, Manifest
from ci_daemon.backup.proving import Proof, examine, unpack
from ci_daemon.lock import LOCK, serving
from ci_daemon.providers import IMAGES
from storage import FILE_KINDS, Vault
from storage.folders import settle
from storage.layout import DATABASE, KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Restored", "restore"]

_WELCOME = {LOCK, STAGING, CONFIGURATION, IMAGES, "lost+found"}
"""Names that a state directory may contain before a restore."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored backup: its proof, and the new path of its configuration file, if it has one."""

    proof: Proof
    configuration: Path | None


def restore(
    source: IO[bytes], directory: Path, *, key: Path | None = None, told: Callable[[int], None] = lambda _: None
) -> Restored:
    """Restore a backup into a state directory; if that fails, the directory is unchanged.

    All files will belong to the owner of the directory, also if root runs this.

    Args:
        source: the backup, read once from beginning to end.
        directory: the target; it may contain images and a configuration, which are kept, and nothing else.
        key: the key file, for a backup without one.
        told: called in this thread with the number of bytes unpacked since its last call.

    Raises:
        AlreadyServed: a service runs there.
        BackupError: the directory is not empty, or the backup is torn, damaged or cannot be opened.
        DatabaseUnreadable, KeyUnreadable, SchemaTooNew, SealBroken: this release cannot use its contents.
    """
    with _emptied(directory) as staging:
        for folder in {kind.folder for kind in FILE_KINDS}:
            (staging / folder).mkdir(mode=0o700)
        manifest = unpack(source, staging, told)
        _take_key(staging, key)
        proof = examine(manifest, staging)
        restored = Restored(proof, _configuration(manifest, staging, directory))
        _move_in(staging, directory, restored.configuration)
    return restored


@contextmanager
def _emptied(directory: Path) -> Iterator[Path]:
    """Lock a directory without state, and yield a temporary folder in it."""
    made = not directory.exists()
    if not made and not directory.is_dir():
        raise BackupError(f"{directory} is a file: give --state-dir an empty directory")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    done = False
    try:
        with serving(directory):
            if foreign := sorted(entry.name for entry in directory.iterdir() if entry.name not in _WELCOME):
                raise BackupError(
                    f"{directory} holds {foreign[0]}{' and more' if foreign[1:] else ''}: move it away as a whole,"
                    f" `mv {directory} {directory}.old`, or give an empty --state-dir"
                )
            staging = directory / STAGING
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(mode=0o700)
            try:
                yield staging
                done = True
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    finally:
        if made and not done:
            shutil.rmtree(directory)


def _take_key(staging: Path, key: Path | None) -> None:
    """Install the given key, or check that the backup has one. Raises BackupError."""
    if key is not None:
        if (staging / KEY).exists():
            raise BackupError("the key is in the backup: leave --key out")
        Vault.load(key)
        descriptor = os.open(staging / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.read_bytes())
    elif not (staging / KEY).exists():
        raise BackupError("it was taken without its key: give that with --key FILE")


def _configuration(manifest: Manifest, staging: Path, directory: Path) -> Path | None:
    """Return the new path of the backup's configuration, None if it has none.

    The path is not the usual one if it was the system's configuration, or if the directory has one already.
    """
    if not (staging / CONFIGURATION).exists():
        return None
    own = manifest.configuration == str(Path(manifest.state_dir) / CONFIGURATION)
    return directory / (CONFIGURATION if own and not (directory / CONFIGURATION).exists() else FROM_BACKUP)


def _move_in(staging: Path, directory: Path, configuration: Path | None) -> None:
    """Move the files into place, the database last, because it makes the directory a state directory."""
    if os.geteuid() == 0:
        owner = directory.stat()
        for path in (*staging.rglob("*"), directory / LOCK):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    if configuration is not None:
        (staging / CONFIGURATION).replace(configuration)
    for path in sorted(staging.iterdir(), key=lambda path: path.name == DATABASE):
        path.rename(directory / path.name)
    settle(directory)
