"""Taking a backup of a state directory, whether its service runs or not, and whatever its schema version is."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import IO, TYPE_CHECKING

from ci_daemon.backup.archive import Packer, packing
from ci_daemon.backup.manifest import CONFIGURATION, BackupError, Manifest
from storage import LogFiles, LogLimit, NotInitialized, SystemClock, Vault, check_database, frozen
from storage.folders import settle
from storage.layout import ARTIFACTS, DATABASE, KEY, LOGS, SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["KEY_PURPOSE", "backup", "backup_to"]

KEY_PURPOSE = b"backup"
"""What is derived from a key for this is told in manifests, to know the key again."""

_SCRATCH = ".backup"


def _nobody(_bytes: int) -> None:
    pass


def backup(
    directory: Path,
    target: Path,
    *,
    configuration: Path | None = None,
    with_key: bool = True,
    told: Callable[[int], None] = _nobody,
) -> Manifest:
    """Take a backup into a file, which only its owner may read, and which appears whole or not at all.

    The arguments, and what is raised, are those of `backup_to`.
    """
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part, flags, 0o600), "wb") as out:
            manifest = backup_to(directory, out, configuration=configuration, with_key=with_key, told=told)
            out.flush()
            os.fsync(out.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    settle(target.parent)
    return manifest


def backup_to(
    directory: Path,
    out: IO[bytes],
    *,
    configuration: Path | None = None,
    with_key: bool = True,
    told: Callable[[int], None] = _nobody,
) -> Manifest:
    """Write a backup to a stream.

    All of it is as the database is at one instant; of a log that is being written it has what the index names. Disks of
    VMs, kept and cached ones too, and images are not in it.

    Args:
        directory: the state directory.
        out: where to.
        configuration: the configuration file that is in effect, if there is one.
        with_key: whether the key is in it, without which nothing that is sealed can be opened.
        told: hears, in this thread, of how many bytes more were copied or packed.

    Raises:
        BackupError: another backup is being taken.
        DatabaseUnreadable: the database is damaged, so that this would be no backup.
        KeyUnreadable, NotInitialized, OSError: it cannot be read, or ``out`` not be written.
    """
    with _scratch(directory) as scratch:
        _link(directory / SOURCES, scratch / SOURCES)
        with frozen(directory) as database:
            # Between these two a source archive can neither go with its build nor come with one unseen.
            _link(directory / SOURCES, scratch / SOURCES)
            key_id = _key_id(directory / KEY) if with_key or (directory / KEY).exists() else None
            database.copy_to(scratch / DATABASE, told)
            counts, schema_version = database.counts(), database.schema_version
        check_database(scratch / DATABASE)
        with packing(out, told) as packer:
            _add(packer, DATABASE, scratch / DATABASE)
            if with_key:
                _add(packer, KEY, directory / KEY)
            if configuration is not None:  # which an owner may well have made a link
                _add(packer, CONFIGURATION, configuration.resolve())
            _add_below(packer, scratch, SOURCES)
            _add_logs(packer, directory)
            _add_below(packer, directory, ARTIFACTS)
            manifest = Manifest(
                created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
                release=version("ci-daemon"),
                state_dir=str(directory),
                schema_version=schema_version,
                key_id=key_id,
                configuration=str(configuration) if configuration else None,
                counts=counts,
                members=packer.members,
            )
            packer.finish(manifest)
    return manifest


@contextmanager
def _scratch(directory: Path) -> Iterator[Path]:
    """Hold a folder in the state directory while a backup is taken; what a killed one left there goes first."""
    if not (directory / DATABASE).is_file():
        raise NotInitialized(directory)
    scratch = directory / _SCRATCH
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


def _link(source: Path, target: Path) -> None:
    """Have files stay for as long as the links to them, whoever removes them meanwhile."""
    target.mkdir(mode=0o700, exist_ok=True)
    for path in source.glob("*.tar.gz"):
        with suppress(FileNotFoundError, FileExistsError):
            os.link(path, target / path.name)


def _add(packer: Packer, name: str, path: Path, size: int | None = None) -> None:
    """Put in a file. A link is not followed: root may run this, and the folders are another user's. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        packer.add(name, file, os.fstat(file.fileno()).st_size if size is None else size)


def _add_below(packer: Packer, root: Path, folder: str) -> None:
    """Put in all files below a folder; those that go meanwhile were about to."""
    for path in sorted((root / folder).rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                _add(packer, path.relative_to(root).as_posix(), path)


def _add_logs(packer: Packer, directory: Path) -> None:
    for share in LogFiles(directory / LOGS, LogLimit(), SystemClock()).shares():
        with suppress(FileNotFoundError):
            # A log without its index is nobody's; the other way round it would be one that cannot be read.
            for path, size in ((share.log, share.log_bytes), (share.index, share.index_bytes)):
                _add(packer, path.relative_to(directory).as_posix(), path, min(size, path.stat().st_size))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
