"""The proof of a backup: digests of all files, then database and key opened as in a restore."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.archive import Digest, Packed, unpacked
from ci_daemon.backup.contents import is_saved
from ci_daemon.backup.manifest import MANIFEST, BackupError, Manifest, Member, Unusable
from storage import FILE_KINDS, Storage, SystemClock, Vault, check_database, frozen
from storage.layout import DATABASE, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage import Discrepancy

__all__ = ["KEY_PURPOSE", "Proof", "examine", "prove", "unpack"]

KEY_PURPOSE = b"backup"
"""Purpose of the derived key that identifies a key in manifests."""

_BLOCK = 2**20
_LONGEST_MANIFEST = 2**29


@dataclass(frozen=True, slots=True)
class Proof:
    """Findings about a backup.

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
    def faults(self) -> tuple[str, ...]:
        """The faults that existed before the backup was taken, one sentence each."""
        books = (f"{each.organization_slug}: {each.problem}" for each in self.discrepancies)
        return (*books, *(f"{path} is missing" for path in self.missing))


def prove(
    source: IO[bytes], folder: Path, *, key: Path | None = None, told: Callable[[int], None] = lambda _: None
) -> Proof:
    """Restore a backup into a new folder, but write only the database and the key.

    Without a key, in the backup or given, secrets are not opened. Raises what `unpack` and `examine` raise.
    """
    folder.mkdir(mode=0o700)
    manifest = unpack(source, folder, told, kept={DATABASE, KEY}.__contains__)
    if KEY in manifest.members:
        return examine(manifest, folder)
    if key is not None:
        shutil.copyfile(key, folder / KEY)
        (folder / KEY).chmod(0o600)
        return examine(manifest, folder)
    Vault.create(folder / KEY)
    return examine(manifest, folder, sealed=False)


def unpack(
    source: IO[bytes], folder: Path, told: Callable[[int], None], *, kept: Callable[[str], bool] = lambda _: True
) -> Manifest:
    """Check all files against the manifest, and unpack those to be ``kept``. Raises BackupError."""
    found: dict[str, Member] = {}
    manifest = None
    for packed in unpacked(source):
        if packed.name == MANIFEST:
            manifest = _read_manifest(packed)
        elif not is_saved(packed.name) or packed.name in found:
            raise Unusable(f"{packed.name} in it is nothing that belongs there, as far as this release knows")
        elif kept(packed.name):
            found[packed.name] = _extract(packed, folder, told)
        else:
            with Path(os.devnull).open("wb") as nowhere:
                found[packed.name] = _copied(packed, nowhere, told)
    if manifest is None:
        raise Unusable("it has no manifest")
    if wrong := sorted(name for name in found.keys() | manifest.members if _differs(name, found, manifest)):
        raise Unusable(f"{wrong[0]} in it is not as it was when the backup was taken")
    if DATABASE not in found:
        raise Unusable("it has no database")
    return manifest


def examine(manifest: Manifest, folder: Path, *, sealed: bool = True) -> Proof:
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
        raise BackupError("the key is not the one of this backup: give the secret.key of the machine it was taken on")
    check_database(folder / DATABASE)
    storage = Storage.open(folder, SystemClock())
    try:
        secrets = storage.secrets.prove() if sealed else None
        unfinished = storage.builds.unfinished()
        if sealed:
            for build in unfinished:
                storage.builds.env(build.id)
        return Proof(
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


def _differs(name: str, found: dict[str, Member], manifest: Manifest) -> bool:
    return found.get(name) != manifest.members.get(name)


def _read_manifest(packed: Packed) -> Manifest:
    if packed.size > _LONGEST_MANIFEST:
        raise Unusable(f"{MANIFEST} in it is too long")
    return Manifest.decoded(packed.read())


def _extract(packed: Packed, folder: Path, told: Callable[[int], None]) -> Member:
    free = shutil.disk_usage(folder).free
    if packed.size > free:
        raise BackupError(f"{packed.name} has {packed.size} bytes, the disk of {folder} has {free}: free some")
    path = folder / packed.name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        member = _copied(packed, file, told)
        file.flush()
        os.fsync(file.fileno())
    return member


def _copied(packed: Packed, file: IO[bytes], told: Callable[[int], None]) -> Member:
    digest = Digest(file, told)
    while block := packed.read(_BLOCK):
        digest.write(block)
    return digest.member
