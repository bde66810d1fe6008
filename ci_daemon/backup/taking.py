"""Taking a backup of a state directory, at any schema version, also while the service runs."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.archive import Packer, Written, packing
from ci_daemon.backup.contents import SCRATCH, strangers
from ci_daemon.backup.links import Links
from ci_daemon.backup.manifest import CONFIGURATION, BackupError, Manifest, Unusable
from ci_daemon.backup.proved_stream import proved_stream
from ci_daemon.backup.proving import KEY_PURPOSE, Proof, prove
from storage import FILE_KINDS, NotInitialized, Vault, frozen, up_to_date
from storage.folders import settle
from storage.layout import DATABASE, KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage import FrozenDatabase

__all__ = ["Backup", "backup", "backup_to"]

_TRIES = 5
"""Attempts at a snapshot of the database all of whose files can be linked."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup: its proof, and the files that it leaves out because no code declares them."""

    proof: Proof
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """The state directory to save, the configuration file in effect, and whether the key is saved too."""

    directory: Path
    configuration: Path | None
    with_key: bool

    @property
    def own_key(self) -> Path | None:
        """The directory's key, which proves a backup without one; None if it is missing."""
        key = self.directory / KEY
        return key if key.exists() else None


def _nobody(_bytes: int) -> None:
    pass


def backup(
    directory: Path,
    target: Path,
    *,
    configuration: Path | None = None,
    with_key: bool = True,
    told: Callable[[int], None] = _nobody,
) -> Backup:
    """Take a backup into a file that only its owner may read; it appears only if it passes its proof.

    The arguments, and what is raised, are those of `backup_to`.
    """
    source = _Source(directory, configuration, with_key)
    part = target.with_name(f"{target.name}.part")
    with _scratch(directory) as scratch:
        part.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(part, flags, 0o600), "w+b") as file:
                _write(source, scratch, file, told, at_manifest=lambda: None)
                file.flush()
                os.fsync(file.fileno())
                # The proof should read from the disk, not from the page cache.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                file.seek(0)
                proof = _prove(file, source, scratch, "is not kept", told)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        settle(target.parent)
    return Backup(proof, tuple(strangers(directory)))


def backup_to(
    directory: Path,
    out: IO[bytes],
    *,
    configuration: Path | None = None,
    with_key: bool = True,
    told: Callable[[int], None] = _nobody,
) -> Backup:
    """Write a backup to a stream, and prove it meanwhile.

    The manifest, without which a backup is torn, is written after the proof. The backup is a snapshot of one instant.
    Images and disks of VMs, also snapshots and cached ones, are not included.

    Args:
        directory: the state directory.
        out: the stream.
        configuration: the configuration file in effect, if there is one.
        with_key: include the key, without which secrets cannot be opened.
        told: called in this thread with the number of bytes copied or packed since its last call.

    Raises:
        BackupError: another backup runs, a file or its folder is a link or a special file, or the proof failed.
        DatabaseUnreadable: the database is damaged.
        KeyUnreadable, NotInitialized, SchemaTooNew, OSError: the state cannot be read, or ``out`` cannot be written.
    """
    source = _Source(directory, configuration, with_key)
    with _scratch(directory) as scratch:
        with proved_stream(out, scratch, lambda read: _prove(read, source, scratch, "ends unfinished")) as stream:
            _write(source, scratch, stream, told, at_manifest=stream.keep_back)
        return Backup(stream.proof, tuple(strangers(directory)))


def _prove(
    stream: IO[bytes], source: _Source, scratch: Path, fate: str, told: Callable[[int], None] = _nobody
) -> Proof:
    """Prove a backup that was just written; ``fate`` completes the error message."""
    try:
        return prove(stream, scratch / "proof", key=source.own_key, told=told)
    except Unusable as error:
        raise BackupError(f"what was written cannot be restored, and {fate}: {error.fault}") from error


def _write(
    source: _Source, scratch: Path, out: Written, told: Callable[[int], None], *, at_manifest: Callable[[], None]
) -> None:
    """Write the archive to a stream."""
    directory = source.directory
    files = Links(directory, scratch / "files")
    key_id = _key_id(directory / KEY) if source.with_key or (directory / KEY).exists() else None
    with _linked(directory, files, scratch) as (database, paths):
        database.copy_to(scratch / DATABASE, told)
        counts, schema_version = database.counts(), database.schema_version
    with packing(out, told) as packer:
        _add(packer, DATABASE, scratch / DATABASE)
        if source.with_key:
            _add(packer, KEY, directory / KEY)
        if source.configuration is not None:  # it may be a link of the owner's
            _add(packer, CONFIGURATION, source.configuration.resolve())
        for path in paths:
            with suppress(FileNotFoundError), files.open(path) as file:
                packer.add(path, file, os.fstat(file.fileno()).st_size)
        at_manifest()
        packer.finish(
            Manifest(
                created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
                release=version("ci-daemon"),
                state_dir=str(directory),
                schema_version=schema_version,
                key_id=key_id,
                configuration=str(source.configuration) if source.configuration else None,
                counts=counts,
                members=packer.members,
            )
        )


@contextmanager
def _linked(directory: Path, files: Links, scratch: Path) -> Iterator[tuple[FrozenDatabase, list[str]]]:
    """Yield a snapshot of the database and the linked files that it names, in the order of their kinds.

    A file may be removed after the snapshot and before it is linked; the next snapshot does not name it. A file that is
    missing twice was lost before.
    """
    before: list[str] = []
    for attempt in range(_TRIES):
        with frozen(directory) as database:
            named = _named(database, scratch / f"migrated-{attempt}")
            paths, missing = [], []
            for path, always in named:
                if files.add(path):
                    paths.append(path)
                elif always:
                    missing.append(path)
            if missing == before or attempt == _TRIES - 1:
                yield database, paths
                return
        before = missing


def _named(database: FrozenDatabase, scratch: Path) -> list[tuple[str, bool]]:
    """Return the paths of the files that a database names, and whether each must exist."""
    with up_to_date(database, scratch) as current:
        return [(path, kind.always) for kind in FILE_KINDS for path in current.files(kind)]


@contextmanager
def _scratch(directory: Path) -> Iterator[Path]:
    """Lock and yield an empty folder in the state directory; remove leftovers of a killed backup."""
    if not (directory / DATABASE).is_file():
        raise NotInitialized(directory)
    scratch = directory / SCRATCH
    scratch.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BackupError(f"another backup of {directory} is being taken: wait for its end") from None
    try:
        for left in scratch.iterdir():
            _remove(left)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(descriptor)


def _key_id(key: Path) -> str:
    return Vault.load(key).derive(KEY_PURPOSE).hex()


def _add(packer: Packer, name: str, path: Path) -> None:
    """Add a file without following symbolic links, since root may run this. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        packer.add(name, file, os.fstat(file.fileno()).st_size)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
