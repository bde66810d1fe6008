"""Verification of a backup: digests of all files, then database and key opened as in a restore."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.archive import ArchiveFile, HashingFile, read_archive
from ci_daemon.backup.contents import is_saved
from ci_daemon.backup.manifest import MANIFEST, ArchiveMember, BackupError, InvalidBackup, Manifest
from storage import FILE_KINDS, Storage, SystemClock, Vault, check_database, frozen, immutable
from storage.files import DATABASE, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage import Discrepancy

KEY_PURPOSE = b"backup"
"""Purpose of the derived key that identifies a key in manifests."""

_CHUNK_BYTES = 2**20
_MAX_MANIFEST = 2**29


@immutable
class Verification:
    """The result of verifying a backup.

    ``schema_version`` is the version after migration. ``secrets`` counts the secrets that were opened; None without a
    key. ``unfinished`` builds continue when the service starts. ``discrepancies`` of the ledger, and files ``missing``
    though the database names them, existed before the backup was taken.
    """

    manifest: Manifest
    schema_version: int
    secrets: int | None
    unfinished: int
    discrepancies: tuple[Discrepancy, ...]
    missing: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that existed before the backup was taken, one sentence each."""
        ledger = (f"{each.organization_slug}: {each.problem}" for each in self.discrepancies)
        return (*ledger, *(f"{path} is missing" for path in self.missing))


def verify(
    source: IO[bytes], folder: Path, *, key: Path | None = None, progress: Callable[[int], None] = lambda _: None
) -> Verification:
    """Restore a backup into a new folder, but write only the database and the key.

    Without a key, in the backup or given, secrets are not opened. Raises what `unpack` and `verify_contents` raise.
    """
    folder.mkdir(mode=0o700)
    manifest = unpack(source, folder, progress, wanted={DATABASE, KEY}.__contains__)
    if KEY in manifest.members:
        return verify_contents(manifest, folder)
    if key is not None:
        shutil.copyfile(key, folder / KEY)
        (folder / KEY).chmod(0o600)
        return verify_contents(manifest, folder)
    Vault.create(folder / KEY)
    return verify_contents(manifest, folder, sealed=False)


def unpack(
    source: IO[bytes], folder: Path, progress: Callable[[int], None], *, wanted: Callable[[str], bool] = lambda _: True
) -> Manifest:
    """Check all files against the manifest, and unpack those to be ``wanted``. Raises BackupError."""
    found: dict[str, ArchiveMember] = {}
    manifest = None
    for packed in read_archive(source):
        if packed.name == MANIFEST:
            manifest = _read_manifest(packed)
        elif not is_saved(packed.name) or packed.name in found:
            raise InvalidBackup(f"it contains {packed.name}, which this release does not know")
        elif wanted(packed.name):
            found[packed.name] = _extract(packed, folder, progress)
        else:
            with Path(os.devnull).open("wb") as discarded:
                found[packed.name] = _copy(packed, discarded, progress)
    if manifest is None:
        raise InvalidBackup("it has no manifest")
    if different := sorted(name for name in found.keys() | manifest.members if _differs(name, found, manifest)):
        raise InvalidBackup(f"{different[0]} in it differs from the manifest")
    if DATABASE not in found:
        raise InvalidBackup("it has no database")
    return manifest


def verify_contents(manifest: Manifest, folder: Path, *, sealed: bool = True) -> Verification:
    """Check and migrate the unpacked database, open all secrets, and verify the ledger.

    Args:
        manifest: the backup's manifest.
        folder: contains database and key.
        sealed: whether that key must open the secrets.

    Raises:
        BackupError: it is the key of another installation.
        DatabaseUnreadable, KeyUnreadable, MigrationFailed, SchemaTooNew, SealBroken: this release cannot use it.
    """
    key_id = Vault.load(folder / KEY).derive(KEY_PURPOSE).hex()
    if sealed and manifest.key_id not in {None, key_id}:
        raise BackupError(
            "the key does not belong to this backup: give the secret.key of the machine that it comes from"
        )
    check_database(folder / DATABASE)
    storage = Storage.open(folder, SystemClock())
    try:
        secrets = storage.secrets.open_all() + storage.registry_logins.open_all() if sealed else None
        unfinished = storage.builds.unfinished()
        if sealed:
            for build in unfinished:
                storage.builds.env(build.id)
        return Verification(
            manifest,
            storage.schema_version(),
            secrets,
            len(unfinished),
            tuple(storage.ledger.verify()),
            _missing(manifest, folder),
        )
    finally:
        storage.close()


def _missing(manifest: Manifest, folder: Path) -> tuple[str, ...]:
    with frozen(folder) as database:
        needed = (path for kind in FILE_KINDS if kind.always for path in database.files(kind))
        return tuple(path for path in needed if path not in manifest.members)


def _differs(name: str, found: dict[str, ArchiveMember], manifest: Manifest) -> bool:
    return found.get(name) != manifest.members.get(name)


def _read_manifest(packed: ArchiveFile) -> Manifest:
    if packed.size > _MAX_MANIFEST:
        raise InvalidBackup(f"its {MANIFEST} is too large")
    return Manifest.from_json(packed.read())


def _extract(packed: ArchiveFile, folder: Path, progress: Callable[[int], None]) -> ArchiveMember:
    free = shutil.disk_usage(folder).free
    if packed.size > free:
        raise BackupError(f"{packed.name} has {packed.size} bytes, but {folder} has {free} free: free some space")
    path = folder / packed.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        member = _copy(packed, file, progress)
        file.flush()
        os.fsync(file.fileno())
    return member


def _copy(packed: ArchiveFile, file: IO[bytes], progress: Callable[[int], None]) -> ArchiveMember:
    digest = HashingFile(file, progress)
    while chunk := packed.read(_CHUNK_BYTES):
        digest.write(chunk)
    return digest.member
