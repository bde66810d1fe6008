"""Root trees on disk, owned by the VMs' ids: unpacked, searched, measured and removed.

A scratch folder is open to the VMs' root, for programs that open their files by path. A note of its name lets a later
process remove it if this one is killed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from actors.vms.host.ids import run_mapped
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.vms.host.ids import IdMap


_CHUNK_BYTES = 1 << 20
_MAGIC = {
    b"\x1f\x8b": ("--gzip", "gzip"),
    b"BZh": ("--bzip2", "bzip2"),
    b"\xfd7zXZ": ("--xz", "xz-utils"),
    b"\x28\xb5\x2f\xfd": ("--zstd", "zstd"),
}
_MAGIC_BYTES = 6
_DEVICE_ERRORS = ("Cannot mknod: Operation not permitted", "Exiting with failure status due to previous errors")
_WITHOUT_DEVICES = ["--exclude=./dev/*", "--exclude=dev/*"]
_MAX_LINKS = 40
_PROGRAMS_OF_BASE = (
    "bin/sh",
    "bin/cat",
    "bin/tar",
    "usr/bin/flock",
    "usr/bin/perl",
    "usr/bin/unshare",
    "usr/sbin/sshd",
)


class Readable(Protocol):
    """The bytes of a file, read from its beginning."""

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes; none at the end."""


class HashedTar:
    """A tar that is hashed as it is read."""

    def __init__(self, tar: Readable) -> None:
        self._tar = tar
        self._hash = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes; none at the end."""
        chunk = self._tar.read(size)
        self._hash.update(chunk)
        return chunk

    def digest(self) -> str:
        """Return the digest of all of it, ``sha256:…``, also of what is behind the tar's own end."""
        while self.read(_CHUNK_BYTES):
            pass
        return f"sha256:{self._hash.hexdigest()}"


@immutable
class Tree:
    """A folder that is the root of a file system, or will be one.

    Programs that write to it run inside the mapping of ids.
    """

    path: Path
    idmap: IdMap

    def make(self) -> None:
        """Make the empty folder, owned by the VMs' root."""
        run_mapped(["mkdir", "-m", "755", self.path.name], idmap=self.idmap.with_caller(), cwd=self.path.parent)

    def unpack(self, chunks: Readable, below: str = "") -> None:
        """Unpack a tar, plain or compressed by gzip, bzip2, xz or zstd, without its device nodes.

        Only what is in the folder ``below`` of the tar is unpacked, if there is one. Raises VmError if the tar is
        invalid or does not fit.
        """
        head = chunks.read(_MAGIC_BYTES)
        option, package = next((found for magic, found in _MAGIC.items() if head.startswith(magic)), ("", ""))
        argv = ["tar", "--extract", "--file=-", "--numeric-owner", "--same-owner", "--preserve-permissions"]
        argv += [option] if option else []
        argv += ["--strip-components=1", f"--exclude={below}/dev/*", below] if below else _WITHOUT_DEVICES
        with tempfile.TemporaryFile() as errors:
            with subprocess.Popen(
                self.idmap.command(argv), cwd=self.path, env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
            ) as tar:  # fmt: skip
                _feed_tar(head, chunks, tar)
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
        if tar.returncode != 0 and not _only_device_errors(lines):
            if any("Cannot exec" in line for line in lines):
                message = f"this archive needs {package} to be unpacked: run `sudo apt-get install -y {package}`"
                raise VmError(message)
            message = f"the archive cannot be unpacked: {'; '.join(lines[-5:])}"
            raise VmError(message)

    def size(self) -> int:
        """Return the bytes it takes on disk."""
        return int(run_mapped(["du", "--summarize", "--block-size=1", "."], idmap=self.idmap, cwd=self.path).split()[0])

    def size_and_files(self) -> tuple[int, int]:
        """Return its bytes on disk and number of files; approximate while others write to it."""
        script = "du --summarize --block-size=1 .; du --summarize --inodes .; :"
        size, _, files, _ = run_mapped(["sh", "-c", script], idmap=self.idmap, cwd=self.path).split()
        return int(size), int(files)

    def flush(self) -> None:
        """Flush all of it to the disk, so that it survives a loss of power."""
        run_mapped(["sync", "--file-system", "."], idmap=self.idmap, cwd=self.path)

    def remove(self) -> None:
        """Remove it with everything in it."""
        argv = ["rm", "-rf", "--", self.path.name]
        run_mapped(argv, idmap=self.idmap.with_caller(), cwd=self.path.parent)


def has_shell(root: Path) -> bool:
    """Tell whether a tree has a ``/bin/sh``."""
    return _is_program(root, "bin/sh")


def can_be_base(root: Path) -> bool:
    """Tell whether a tree has what the service's part of VMs needs: sshd, coreutils, util-linux, perl."""
    return all(_is_program(root, name) for name in _PROGRAMS_OF_BASE)


def _feed_tar(head: bytes, chunks: Readable, tar: subprocess.Popen[bytes]) -> None:
    """Write everything to ``tar``, or as much as it takes; its own errors say why it stopped."""
    assert tar.stdin is not None  # noqa: S101 - it is a pipe
    try:
        with tar.stdin as stdin:
            for chunk in _chain(head, chunks):
                stdin.write(chunk)
    except BrokenPipeError:
        return
    except BaseException:
        tar.kill()
        raise


def _chain(head: bytes, chunks: Readable) -> Iterator[bytes]:
    yield head
    while chunk := chunks.read(_CHUNK_BYTES):
        yield chunk


def _only_device_errors(lines: Iterable[str]) -> bool:
    """Tell whether all errors are about device nodes, which only root of the host may make."""
    errors = list(lines)
    return bool(errors) and all(line.endswith(_DEVICE_ERRORS) for line in errors)


def _is_program(root: Path, name: str) -> bool:
    place = _resolve_inside(root, name)
    if place is None:
        return False
    mode = place.stat().st_mode
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _resolve_inside(root: Path, name: str) -> Path | None:
    """Resolve a name as if ``root`` were ``/``, because links may be absolute; None if it does not exist."""
    pending, place = name.split("/")[::-1], root
    for _ in range(_MAX_LINKS):
        if not pending:
            return place
        part = pending.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            place = place.parent if place != root else root
            continue
        try:
            mode = (place / part).lstat().st_mode
            target = str((place / part).readlink()) if stat.S_ISLNK(mode) else ""
        except OSError:
            return None
        if target:
            place = root if target.startswith("/") else place
            pending += target.split("/")[::-1]
        else:
            place /= part
    return None


_PLACE = Path("/var/tmp")  # noqa: S108 - the state directory is closed to the VMs' ids
_MEMORY = Path("/dev/shm")  # noqa: S108 - as above
_NOTE = "scratch"


@contextmanager
def scratch(making: Path, idmap: IdMap, *, memory: int = 0) -> Iterator[Path]:
    """Yield a scratch folder; a file in ``making`` holds its name for as long as it may exist.

    If it takes at most ``memory`` bytes, and the host has four times these to spare, it is in memory.
    """
    place = _MEMORY if memory and _spare_memory() > 4 * memory else _PLACE
    folder = place / f"ci-daemon-image-{secrets.token_hex(8)}"
    (making / _NOTE).write_text(str(folder), encoding="ascii")
    folder.mkdir(mode=0o700)
    run_mapped(["chgrp", "0", folder.name], idmap=idmap.with_caller(), cwd=place)
    folder.chmod(0o710)
    try:
        yield folder
    finally:
        sweep_scratch(making, idmap)


def sweep_scratch(making: Path, idmap: IdMap) -> None:
    """Remove the scratch folder of ``making``, if any."""
    note = making / _NOTE
    try:
        folder = Path(note.read_text(encoding="ascii"))
    except FileNotFoundError:
        return
    if folder.parent in {_PLACE, _MEMORY}:  # otherwise the host crashed before the note was complete
        Tree(folder, idmap).remove()
    note.unlink()


def _spare_memory() -> int:
    """Return the bytes of memory that files may take; 0 if no programs may be run there."""
    try:
        place = os.statvfs(_MEMORY)
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    if place.f_flag & os.ST_NOEXEC:
        return 0
    available = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
    return min(place.f_bavail * place.f_frsize, available * 1024)
