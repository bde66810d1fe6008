"""Files of a server, written so that an interruption loses nothing and a wrong byte is found."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from ci_daemon.remote.errors import RequestFailed, ServiceUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from api.operations import ArtifactRecord
    from ci_daemon.remote.errors import Backoff

_BLOCK = 1 << 20


class DownloadRefused(Exception):
    """A file cannot be written, or is not what it should be; the message says what to do."""


class OpenFile(Protocol):
    """The way to open a file from a byte on: its chunks as they arrive."""

    def __call__(self, start: int) -> AbstractContextManager[Iterator[bytes]]:
        """Open it. Raises RequestFailed and ServiceUnreachable, also while it is read."""
        ...


def place(folder: Path, path: str) -> Path:
    """Return the file below a folder that an artifact's path names, whose folders it makes.

    The path is a stranger's. Raises DownloadRefused if it leads out of the folder, also by a link that is there.
    """
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts or "\0" in path:
        raise DownloadRefused(f"{path!r} is no path below a folder: it is not written")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder.joinpath(*parts)
    existing = next(each for each in file.parents if each.exists())
    if not existing.resolve().is_relative_to(folder.resolve()):
        raise DownloadRefused(f"{existing} leads out of {folder}: move it away, or choose another folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        raise DownloadRefused(f"{file} is a folder: move it away, or choose another folder")
    return file


def download(
    artifact: ArtifactRecord, file: Path, open_from: OpenFile, backoff: Backoff, progress: Callable[[int], None]
) -> bool:
    """Write a file unless it is there already, and tell whether it was written.

    What was written before an interruption is in a part file beside it, at whose end the next call goes on.
    ``progress`` gets the number of bytes so far.

    Raises:
        DownloadRefused: there is another file in its place, or the bytes are not those that the service described;
            then the part file is removed.
        RequestFailed, ServiceUnreachable: the service refuses, or was away for too long.
    """
    if os.path.lexists(file):
        if not file.is_symlink() and file.stat().st_size == artifact.file_size and _sha256(file) == artifact.sha256:
            return False
        raise DownloadRefused(f"{file} is there already, with other content: move it away, or choose another folder")
    part = file.with_name(f".{artifact.sha256}.part")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "r+b") as opened:
        digest = _digest(opened)
        _fill(artifact, opened, digest, open_from, backoff, progress)
        opened.flush()
        os.fsync(opened.fileno())
    if digest.hexdigest() != artifact.sha256:
        part.unlink()
        raise DownloadRefused(f"{file}: the bytes are not those of the artifact: get it again")
    part.replace(file)
    return True


def _fill(
    artifact: ArtifactRecord,
    part: BinaryIO,
    digest: hashlib._Hash,
    open_from: OpenFile,
    backoff: Backoff,
    progress: Callable[[int], None],
) -> None:
    """Write what is missing; one byte too many is enough to know that it is another file."""
    while part.tell() < artifact.file_size:
        try:
            with open_from(part.tell()) as chunks:
                for chunk in chunks:
                    wanted = chunk[: artifact.file_size + 1 - part.tell()]
                    part.write(wanted)
                    digest.update(wanted)
                    progress(part.tell())
                    backoff.reset()
                    if part.tell() > artifact.file_size:
                        return
        except (RequestFailed, ServiceUnreachable) as error:
            backoff.wait_or_raise(error)
            continue
        if part.tell() < artifact.file_size:
            return


def _digest(opened: BinaryIO) -> hashlib._Hash:
    """Return the hash of what a file has, and leave its position at its end."""
    digest = hashlib.sha256()
    while block := opened.read(_BLOCK):
        digest.update(block)
    return digest


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return _digest(opened).hexdigest()
