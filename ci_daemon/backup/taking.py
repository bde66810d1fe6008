"""Taking a backup of a state directory, at any schema version, also while the service runs."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.archive import ArchiveWriter, ByteSink, archive_writer
from ci_daemon.backup.contents import SCRATCH, undeclared_files
from ci_daemon.backup.hard_links import HardLinks
from ci_daemon.backup.manifest import CONFIGURATION, BackupError, InvalidBackup, Manifest
from ci_daemon.backup.verification import KEY_PURPOSE, Verification, verify
from ci_daemon.backup.verified_stream import verified_stream
from storage import FILE_KINDS, NotInitialized, Vault, frozen, immutable, up_to_date
from storage.files import DATABASE, KEY, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage import FrozenDatabase

_MAX_TRIES = 5
"""Attempts at a snapshot of the database all of whose files can be linked."""


@immutable
class Backup:
    """A backup: its verification, and the files that it leaves out because no code declares them."""

    verification: Verification
    left_out: tuple[str, ...]


@immutable
class _Source:
    """The state directory to save, the configuration file in effect, and whether the key is saved too."""

    directory: Path
    configuration: Path | None
    with_key: bool

    @property
    def own_key(self) -> Path | None:
        """The directory's key, to verify a backup without one; None if it is missing."""
        key = self.directory / KEY
        return key if key.exists() else None


def _no_progress(_bytes: int) -> None:
    pass


def backup(
    directory: Path,
    target: Path,
    *,
    configuration: Path | None = None,
    with_key: bool = True,
    progress: Callable[[int], None] = _no_progress,
) -> Backup:
    """Take a backup into a file that only its owner may read; it appears once it is verified.

    The arguments, and what is raised, are those of `backup_to`.
    """
    source = _Source(directory, configuration, with_key)
    part = target.with_name(f"{target.name}.part")
    with _scratch(directory) as scratch:
        part.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(part, flags, 0o600), "w+b") as file:
                _write(source, scratch, file, progress, before_manifest=lambda: None)
                file.flush()
                os.fsync(file.fileno())
                # The verification should read from the disk, not from the page cache.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                file.seek(0)
                verification = _verify(file, source, scratch, "was deleted", progress)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)
    return Backup(verification, tuple(undeclared_files(directory)))


def backup_to(
    directory: Path,
    out: IO[bytes],
    *,
    configuration: Path | None = None,
    with_key: bool = True,
    progress: Callable[[int], None] = _no_progress,
) -> Backup:
    """Write a backup to a stream, and verify it meanwhile.

    The manifest, without which a backup is incomplete, is written after the verification. The backup shows the state of
    one instant. Images and disks of VMs, also snapshots and cached ones, are not included.

    Args:
        directory: the state directory.
        out: the stream.
        configuration: the configuration file in effect, if there is one.
        with_key: include the key, without which secrets cannot be opened.
        progress: called in this thread with the number of bytes copied or packed since its last call.

    Raises:
        BackupError: another backup runs, a file or its folder is a link or a special file, or the verification failed.
        DatabaseUnreadable: the database is damaged.
        KeyUnreadable, NotInitialized, SchemaTooNew, OSError: the state cannot be read, or ``out`` cannot be written.
    """
    source = _Source(directory, configuration, with_key)
    with _scratch(directory) as scratch:
        with verified_stream(
            out, scratch, lambda read: _verify(read, source, scratch, "was left unfinished")
        ) as stream:
            _write(source, scratch, stream, progress, before_manifest=stream.buffer_rest)
        return Backup(stream.verification, tuple(undeclared_files(directory)))


def _verify(
    stream: IO[bytes], source: _Source, scratch: Path, consequence: str, progress: Callable[[int], None] = _no_progress
) -> Verification:
    """Verify a backup that was just written; ``consequence`` completes the error message."""
    try:
        return verify(stream, scratch / "verification", key=source.own_key, progress=progress)
    except InvalidBackup as error:
        raise BackupError(f"the backup cannot be restored, so it {consequence}: {error.reason}") from error


def _write(
    source: _Source,
    scratch: Path,
    out: ByteSink,
    progress: Callable[[int], None],
    *,
    before_manifest: Callable[[], None],
) -> None:
    """Write the archive to a stream."""
    directory = source.directory
    files = HardLinks(directory, scratch / "files")
    key_id = _key_id(directory / KEY) if source.with_key or (directory / KEY).exists() else None
    with _snapshot_with_files(directory, files, scratch) as (database, paths):
        database.copy_to(scratch / DATABASE, progress)
        counts, schema_version = database.counts(), database.schema_version
    with archive_writer(out, progress) as archive:
        _add(archive, DATABASE, scratch / DATABASE)
        if source.with_key:
            _add(archive, KEY, directory / KEY)
        if source.configuration is not None:  # it may be a link of the owner's
            _add(archive, CONFIGURATION, source.configuration.resolve())
        for path in paths:
            with suppress(FileNotFoundError), files.open(path) as file:
                archive.add(path, file, os.fstat(file.fileno()).st_size)
        before_manifest()
        archive.finish(
            Manifest(
                created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
                release=version("ci-daemon"),
                state_dir=str(directory),
                schema_version=schema_version,
                key_id=key_id,
                configuration=str(source.configuration) if source.configuration else None,
                counts=counts,
                members=archive.members,
            )
        )


@contextmanager
def _snapshot_with_files(
    directory: Path, files: HardLinks, scratch: Path
) -> Iterator[tuple[FrozenDatabase, list[str]]]:
    """Yield a snapshot of the database and the linked files that it names, in the order of their kinds.

    A file may be removed after the snapshot and before it is linked; the next snapshot does not name it. A file that is
    missing twice was lost before.
    """
    before: list[str] = []
    for attempt in range(_MAX_TRIES):
        with frozen(directory) as database:
            files_named = _files_named(database, scratch / f"migrated-{attempt}")
            paths, missing = [], []
            for path, always in files_named:
                if files.add(path):
                    paths.append(path)
                elif always:
                    missing.append(path)
            if missing == before or attempt == _MAX_TRIES - 1:
                yield database, paths
                return
        before = missing


def _files_named(database: FrozenDatabase, scratch: Path) -> list[tuple[str, bool]]:
    """Return the paths of the files that a database names, and whether each must exist."""
    with up_to_date(database, scratch) as current:
        return [(path, kind.always) for kind in FILE_KINDS for path in current.files(kind)]


@contextmanager
def _scratch(directory: Path) -> Iterator[Path]:
    """Lock and yield an empty folder in the state directory; remove orphans of a killed backup."""
    if not (directory / DATABASE).is_file():
        raise NotInitialized(directory)
    scratch = directory / SCRATCH
    scratch.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BackupError(f"another backup of {directory} is being taken: wait until it ends") from None
    try:
        for orphan in scratch.iterdir():
            _remove(orphan)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(descriptor)


def _key_id(key: Path) -> str:
    return Vault.load(key).derive(KEY_PURPOSE).hex()


def _add(archive: ArchiveWriter, name: str, path: Path) -> None:
    """Add a file without following symbolic links, since root may run this. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        archive.add(name, file, os.fstat(file.fileno()).st_size)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
