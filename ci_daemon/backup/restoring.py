"""Making a state directory out of a backup, which proves on the way that it is whole and all in it belongs together."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.archive import Digest, Packed, unpacked
from ci_daemon.backup.manifest import CONFIGURATION, MANIFEST, BackupError, Manifest, Member
from ci_daemon.backup.taking import KEY_PURPOSE
from ci_daemon.lock import serving
from storage import Storage, SystemClock, Vault, check_database
from storage.folders import settle
from storage.layout import ARTIFACTS, DATABASE, KEY, LOGS, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage import Discrepancy

__all__ = ["Proof", "restore"]

_STAGING = ".restoring"
_LOCK = "ci-daemon.lock"
_WELCOME = {_LOCK, _STAGING, CONFIGURATION, "images", "lost+found"}
"""What may lie in a state directory that is restored."""

_FROM_BACKUP = f"{CONFIGURATION}.from-backup"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KNOWN = re.compile(
    rf"{re.escape(DATABASE)}|{re.escape(KEY)}|{re.escape(CONFIGURATION)}|{SOURCES}/{_UUID}\.tar\.gz"
    rf"|{LOGS}/{_UUID}/{_UUID}/[0-9]{{1,9}}\.(?:log|idx)|{ARTIFACTS}/{_UUID}/{_UUID}"
)
_BLOCK = 2**20
_LONGEST_MANIFEST = 2**29


@dataclass(frozen=True, slots=True)
class Proof:
    """What a restored backup was found to be.

    ``schema_version`` is the one it was brought to. ``secrets`` opened with its key. ``unfinished`` builds go on when
    the service starts. ``discrepancies`` are what the books got wrong before the backup was taken. ``configuration`` is
    where the configuration file lies that was in it.
    """

    manifest: Manifest
    schema_version: int
    secrets: int
    unfinished: int
    discrepancies: tuple[Discrepancy, ...]
    configuration: Path | None


def restore(
    source: IO[bytes], directory: Path, *, key: Path | None = None, told: Callable[[int], None] = lambda _: None
) -> Proof:
    """Make a state directory out of a backup; where that fails the directory is as it was.

    What is made belongs to the directory's owner, whoever runs this.

    Args:
        source: the backup, read once from its beginning to its end.
        directory: where to; it may hold images and a configuration, which both stay, and nothing else.
        key: the key of a backup that is without it.
        told: hears, in this thread, of how many bytes more were unpacked.

    Raises:
        AlreadyServed: a service runs there.
        BackupError: the directory is not empty, or the backup no such, not whole or not to be opened.
        DatabaseUnreadable, KeyUnreadable, SchemaTooNew, SealBroken: what it holds is of no use to this release.
    """
    with _emptied(directory) as staging:
        manifest = _unpack(source, staging, told)
        _take_key(manifest, staging, key)
        check_database(staging / DATABASE)
        proof = _prove(manifest, staging, directory)
        _move_in(staging, directory, proof)
    return proof


@contextmanager
def _emptied(directory: Path) -> Iterator[Path]:
    """Hold a directory that has no state yet, and yield a folder in it that goes again at the end."""
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
            staging = directory / _STAGING
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


def _unpack(source: IO[bytes], staging: Path, told: Callable[[int], None]) -> Manifest:
    """Unpack all files, and hold them against the manifest."""
    for folder in (ARTIFACTS, LOGS, SOURCES):
        (staging / folder).mkdir(mode=0o700)
    found: dict[str, Member] = {}
    manifest = None
    for packed in unpacked(source):
        if packed.name == MANIFEST:
            manifest = _read_manifest(packed)
        elif not _KNOWN.fullmatch(packed.name) or packed.name in found:
            raise BackupError(f"{packed.name} in it is nothing that belongs there: use another backup")
        else:
            found[packed.name] = _extract(packed, staging, told)
    if manifest is None:
        raise BackupError("it has no manifest: use another backup")
    if wrong := sorted(name for name in found.keys() | manifest.members if _differs(name, found, manifest)):
        raise BackupError(f"{wrong[0]} in it is not as it was when the backup was taken: use another backup")
    if DATABASE not in found:
        raise BackupError("it has no database: use another backup")
    return manifest


def _differs(name: str, found: dict[str, Member], manifest: Manifest) -> bool:
    return found.get(name) != manifest.members.get(name)


def _read_manifest(packed: Packed) -> Manifest:
    if packed.size > _LONGEST_MANIFEST:
        raise BackupError(f"{MANIFEST} in it is too long: use another backup")
    return Manifest.decoded(packed.read())


def _extract(packed: Packed, staging: Path, told: Callable[[int], None]) -> Member:
    free = shutil.disk_usage(staging).free
    if packed.size > free:
        raise BackupError(f"{packed.name} has {packed.size} bytes, the disk of {staging.parent} has {free}: free some")
    path = staging / packed.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        digest = Digest(file, told)
        while block := packed.read(_BLOCK):
            digest.write(block)
        file.flush()
        os.fsync(file.fileno())
    return digest.member


def _take_key(manifest: Manifest, staging: Path, key: Path | None) -> None:
    """Have the right key where it belongs."""
    if key is not None:
        if (staging / KEY).exists():
            raise BackupError("the key is in the backup: leave --key out")
        Vault.load(key)
        descriptor = os.open(staging / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key.read_bytes())
    elif not (staging / KEY).exists():
        raise BackupError("it was taken without its key: give that with --key FILE")
    if manifest.key_id not in {None, Vault.load(staging / KEY).derive(KEY_PURPOSE).hex()}:
        raise BackupError("the key is not the one of this backup: give the secret.key of the machine it was taken on")


def _prove(manifest: Manifest, staging: Path, directory: Path) -> Proof:
    """Open what was unpacked as the service does, bring its schema up to date, and try all that can be tried."""
    storage = Storage.open(staging, SystemClock())
    try:
        secrets = storage.secrets.prove()
        unfinished = storage.builds.unfinished()
        for build in unfinished:
            storage.builds.env(build.id)
        discrepancies = tuple(storage.ledger.verify())
        schema_version = storage.schema_version()
    finally:
        storage.close()
    return Proof(
        manifest, schema_version, secrets, len(unfinished), discrepancies, _configuration(manifest, staging, directory)
    )


def _configuration(manifest: Manifest, staging: Path, directory: Path) -> Path | None:
    """Return where the configuration goes: aside where it was the whole system's, or another one is there."""
    if not (staging / CONFIGURATION).exists():
        return None
    own = manifest.configuration == str(Path(manifest.state_dir) / CONFIGURATION)
    return directory / (CONFIGURATION if own and not (directory / CONFIGURATION).exists() else _FROM_BACKUP)


def _move_in(staging: Path, directory: Path, proof: Proof) -> None:
    """Move all into place, the database last: with it the directory is a state directory, and before it is none."""
    if os.geteuid() == 0:
        owner = directory.stat()
        for path in (*staging.rglob("*"), directory / _LOCK):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    if proof.configuration is not None:
        (staging / CONFIGURATION).replace(proof.configuration)
    for path in sorted(staging.iterdir(), key=lambda path: path.name == DATABASE):
        path.rename(directory / path.name)
    settle(directory)
