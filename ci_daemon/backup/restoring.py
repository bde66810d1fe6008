"""Restoring a backup into a state directory, with the same verification as in a backup."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.contents import FROM_BACKUP, STAGING
from ci_daemon.backup.manifest import CONFIGURATION, BackupError, Manifest
from ci_daemon.backup.verification import Verification, unpack, verify_contents
from ci_daemon.host.lock import LOCK, serving
from ci_daemon.providers import IMAGES
from storage import FILE_KINDS, Vault, immutable
from storage.files import DATABASE, KEY, sync_file_system, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ALLOWED_ENTRIES = {LOCK, STAGING, CONFIGURATION, IMAGES, "lost+found"}
"""Names that a state directory may contain before a restore."""


@immutable
class RestoreResult:
    """A restored backup: its verification, and the new path of its configuration file, if it has one."""

    verification: Verification
    configuration: Path | None


def restore(
    source: IO[bytes], directory: Path, *, key: Path | None = None, progress: Callable[[int], None] = lambda _: None
) -> RestoreResult:
    """Restore a backup into a state directory; if that fails, the directory is unchanged.

    All files will belong to the owner of the directory, also if root runs this.

    Args:
        source: the backup, read once from beginning to end.
        directory: the target; it may contain images and a configuration, which are kept, and nothing else.
        key: the key file, for a backup without one.
        progress: called in this thread with the number of bytes unpacked since its last call.

    Raises:
        AlreadyServed: a service runs there.
        BackupError: the directory is not empty, or the backup is truncated, damaged or cannot be opened.
        DatabaseUnreadable, KeyUnreadable, SchemaTooNew, SealBroken: this release cannot use its contents.
    """
    with _staging_folder(directory) as staging:
        for folder in {kind.folder for kind in FILE_KINDS}:
            (staging / folder).mkdir(mode=0o700)
        manifest = unpack(source, staging, progress)
        _install_key(staging, key)
        verification = verify_contents(manifest, staging)
        restored = RestoreResult(verification, _configuration(manifest, staging, directory))
        _move_into_place(staging, directory, restored.configuration)
    return restored


@contextmanager
def _staging_folder(directory: Path) -> Iterator[Path]:
    """Lock a directory without state, and yield a temporary folder in it."""
    made = not directory.exists()
    if not made and not directory.is_dir():
        raise BackupError(f"{directory} is a file: give --state-dir an empty directory")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    done = False
    try:
        with serving(directory):
            if foreign := sorted(entry.name for entry in directory.iterdir() if entry.name not in _ALLOWED_ENTRIES):
                raise BackupError(
                    f"{directory} contains {foreign[0]}{' and more' if foreign[1:] else ''}: move the directory away"
                    f" with `mv {directory} {directory}.old`, or give an empty --state-dir"
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


def _install_key(staging: Path, key: Path | None) -> None:
    """Install the given key, or check that the backup has one. Raises BackupError."""
    if key is not None:
        if (staging / KEY).exists():
            raise BackupError("the backup contains its key: remove --key")
        Vault.load(key)
        descriptor = os.open(staging / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.read_bytes())
    elif not (staging / KEY).exists():
        raise BackupError("it does not contain its key: give the key with --key FILE")


def _configuration(manifest: Manifest, staging: Path, directory: Path) -> Path | None:
    """Return the new path of the backup's configuration, None if it has none.

    The path is not the usual one if it was the system's configuration, or if the directory has one already.
    """
    if not (staging / CONFIGURATION).exists():
        return None
    own = manifest.configuration == str(Path(manifest.state_dir) / CONFIGURATION)
    return directory / (CONFIGURATION if own and not (directory / CONFIGURATION).exists() else FROM_BACKUP)


def _move_into_place(staging: Path, directory: Path, configuration: Path | None) -> None:
    """Move the files into place, the database last, because it makes the directory a state directory."""
    if os.geteuid() == 0:
        owner = directory.stat()
        for path in (*staging.rglob("*"), directory / LOCK):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    if configuration is not None:
        (staging / CONFIGURATION).replace(configuration)
    sync_file_system(staging)
    for path in sorted(staging.iterdir(), key=lambda path: path.name == DATABASE):
        if path.name == DATABASE:
            sync_folder(directory)
        path.rename(directory / path.name)
    sync_folder(directory)
