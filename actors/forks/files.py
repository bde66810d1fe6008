"""Files of the disks that jobs have left: a folder listed, and a file or a folder taken out.

A VM with a fork of the disk reads them, as the job's own commands would, so that no link, device or name of the disk
leads anywhere on the host. What the VM says is checked: a job may have replaced its programs.
"""

from __future__ import annotations

import os
import shlex
import tarfile
import tempfile
from contextlib import contextmanager
from hashlib import sha256
from typing import IO, TYPE_CHECKING

from actors import vms
from actors.forks.running import FORK_SECONDS, RunFailed, watched
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.forks.forks import Fork, Forks
    from storage import Build, Job, Masker

MOST_ENTRIES = 1000
"""The most entries of a folder that are listed."""

MOST_BYTES = 256 << 20
"""The most bytes of a file, or of the tar of a folder, that are taken out."""

_MOST_FILES = 10_000
_MOST_LIST_BYTES = 1 << 20
_MOST_NAME_BYTES = 255
_SECONDS = 120
_GRACE = 5.0
_LATE_SECONDS = 15.0
_MEMORY_BYTES = 1 << 20
_TAR_OVERHEAD = 16 << 20

_MISSING, _OTHER, _NO_TAR, _CLOSED = 67, 68, 69, 66
_WHY = {
    _MISSING: "there is no such file or folder",
    _OTHER: "it is no file or folder",
    _NO_TAR: "the job's image has no tar, by which folders are taken: take single files",
    _CLOSED: "it cannot be read",
}
_KINDS = {b"f": "file", b"d": "folder", b"l": "link", b"o": "other"}

_LIST = """\
unset CDPATH
if [ -d "$place" ]; then cd "$place" || exit 66; elif [ -e "$place" ] || [ -L "$place" ]; then exit 68; else exit 67; fi
number=0
set --
for each in * .[!.]* ..?*; do
    if [ -e "$each" ] || [ -L "$each" ]; then
        number=$((number + 1))
        [ "$number" -gt "$most" ] && break
        set -- "$@" "./$each"
    fi
done
for each; do
    if [ -L "$each" ]; then kind=l; elif [ -d "$each" ]; then kind=d; elif [ -f "$each" ]; then kind=f; else kind=o; fi
    printf '%s%s\\0' "$kind" "${each#./}"
done
printf '%s\\0' "$number"
[ "$#" = 0 ] || stat -c %s "$@" 2>/dev/null
exit 0
"""

_TAKE = """\
if [ -f "$place" ]; then
    printf f
    exec cat <"$place"
elif [ -d "$place" ]; then
    command -v tar >/dev/null || exit 69
    cd "$place" || exit 66
    printf d
    exec tar -cf - .
elif [ -e "$place" ] || [ -L "$place" ]; then exit 68; else exit 67; fi 2>/dev/null
"""


class FileRefused(Exception):
    """A file or folder of a disk cannot be shown or taken; the message says why."""


@immutable
class DiskEntry:
    """An entry of a folder: a ``file``, ``folder``, ``link`` or ``other``; a size may be unknown."""

    name: str
    kind: str
    size: int | None


@immutable
class DiskFolder:
    """A folder by its ``path``, with its entries by name; if it is ``cut``, there are more."""

    path: str
    before: bool
    entries: tuple[DiskEntry, ...]
    cut: bool


class TakenFile:
    """The bytes of a file, or the tar of a folder, in a file without a name, which goes with this object."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        file.flush()
        self._file = file
        self.name = name
        self.size = file.seek(0, os.SEEK_END)
        digest = sha256()
        for start in range(0, self.size, _MEMORY_BYTES):
            digest.update(self.read(start, _MEMORY_BYTES))
        self.sha256 = digest.hexdigest()

    def read(self, start: int, length: int) -> bytes:
        """Return up to ``length`` bytes from offset ``start``."""
        return os.pread(self._file.fileno(), length, start)


@immutable
class ListFolder:
    """A folder to list, by a path from the workspace or an absolute one; else like a `ForkRun`."""

    path: str
    before: bool = False
    budget_id: int | None = None

    def done_on(self, forks: Forks, build: Build, job: Job, *, opened_by: str, gone: Callable[[], bool]) -> DiskFolder:
        """List it on a fork. Raises FileRefused and RunFailed, and what `Forks.open` raises."""
        wanted = f"most={MOST_ENTRIES}\n{_LIST}"
        output = bytearray()
        with _reading(forks, build, job, self, opened_by, gone) as fork:
            for piece in _output(fork, self.path, wanted, _MOST_LIST_BYTES):
                output += piece
            return folder_of(self.path, bytes(output), fork.masker, before=self.before)


@immutable
class TakeFile:
    """A file or folder to take out, as `ListFolder` names it.

    Of a folder the files alone are taken, into a new tar: no link, device or path in it leads out of where it is
    unpacked. The secrets of the job are hidden in names and contents.
    """

    path: str
    before: bool = False
    budget_id: int | None = None

    def done_on(self, forks: Forks, build: Build, job: Job, *, opened_by: str, gone: Callable[[], bool]) -> TakenFile:
        """Take it from a fork. Raises FileRefused and RunFailed, and what `Forks.open` raises."""
        if forks.free_bytes() - 2 * MOST_BYTES < forks.settings.jobs.min_free_bytes:
            raise FileRefused("the host's disk is too full to keep it meanwhile")
        name = _plain_name(self.path)
        with _reading(forks, build, job, self, opened_by, gone) as fork:
            pieces = _output(fork, self.path, _TAKE, MOST_BYTES + _TAR_OVERHEAD)
            first = next(pieces, b"")
            file = tempfile.TemporaryFile(dir=forks.folder)  # noqa: SIM115 - it goes on with what was taken
            if first[:1] == b"d":
                write_tar(_joined(first[1:], pieces), file, name, fork.masker)
                return TakenFile(file, f"{name}.tar")
            for piece in _masked(_joined(first[1:], pieces), fork.masker):
                file.write(piece)
            return TakenFile(file, name)


@contextmanager
def _reading(
    forks: Forks, build: Build, job: Job, wanted: ListFolder | TakeFile, opened_by: str, gone: Callable[[], bool]
) -> Iterator[Fork]:
    opened = forks.open(
        build, job, before=wanted.before, seconds=FORK_SECONDS, opened_by=opened_by, budget_id=wanted.budget_id
    )
    with opened as fork, watched(forks, fork, _SECONDS + _GRACE + _LATE_SECONDS, gone):
        yield fork


def _output(fork: Fork, path: str, program: str, most: int) -> Iterator[bytes]:
    """Yield what a program prints of a path. Raises FileRefused at its end if it fails or prints more."""
    place = path if path.startswith("/") else f"./{path}"
    spec = vms.CommandSpec(
        command=f"place={shlex.quote(place)}\n{program}",
        env=fork.variables,
        seconds=_SECONDS,
        grace=_GRACE,
        output_limit=most,
        output_patience=_LATE_SECONDS,
    )
    following = vms.start(fork.link.connected(), spec)
    left = most
    for piece in following:
        left -= len(piece)
        if left < 0:
            raise RunFailed("the VM sent more output than it was asked for")
        yield bytes(piece)
    exited = following.exited
    if exited is None or exited.timed_out:
        raise FileRefused(f"it could not be read within {_SECONDS} seconds")
    if exited.truncated:
        raise FileRefused(f"it has more than {MOST_BYTES >> 20} MiB, which is the most that is taken out at once")
    if exited.exit_code:
        raise FileRefused(_WHY.get(exited.exit_code, f"it cannot be read: exit code {exited.exit_code}"))


def folder_of(path: str, output: bytes, masker: Masker, *, before: bool) -> DiskFolder:
    """Return what the VM has listed. Raises FileRefused if that is no list. Pure."""
    *records, sizes = output.split(b"\0")
    number = records.pop() if records else b""
    if not number.isdigit() or len(number) > len(str(MOST_ENTRIES)) or len(records) > MOST_ENTRIES:
        raise FileRefused("the VM sent no list of the folder")
    lines = sizes.split()
    known = len(lines) == len(records)
    entries = []
    for place, record in enumerate(records):
        kind, name = _KINDS.get(record[:1]), record[1:]
        if kind is None or not name or len(name) > _MOST_NAME_BYTES or name in {b".", b".."} or b"/" in name:
            raise FileRefused("the VM sent no list of the folder")
        size = lines[place] if known else b""
        is_size = kind == "file" and size.isdigit() and len(size) < len(str(2**63))
        entries.append(DiskEntry(masker.masked(name.decode(errors="replace")), kind, int(size) if is_size else None))
    entries.sort(key=lambda each: (each.kind != "folder", each.name))
    return DiskFolder(path, before, tuple(entries), cut=int(number) > len(records))


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    """Yield chunks, none of which is empty: that is the end of a tar's."""
    yield from filter(None, (first,))
    yield from filter(None, rest)


def _masked(pieces: Iterator[bytes], masker: Masker) -> Iterator[bytes | memoryview]:
    undecided = b""
    for piece in pieces:
        output = undecided + piece
        shown, taken = masker.mask(output, more=True)
        undecided = output[taken:]
        yield shown
    yield masker.mask(undecided, more=False)[0]


def write_tar(chunks: Iterator[bytes], file: IO[bytes], name: str, masker: Masker) -> None:
    """Write the files of a stranger's tar into a new one, below ``name``. Raises FileRefused."""
    written: set[str] = set()
    left = MOST_BYTES
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        try:
            for each in vms.TarReader(chunks).files():
                path = f"{name}/{_path_below(each.path, masker)}"
                left -= each.file_size
                if left < 0 or len(written) >= _MOST_FILES:
                    raise FileRefused(
                        f"the folder has more than {MOST_BYTES >> 20} MiB or {_MOST_FILES:,} files, which is the most "
                        "that is taken out at once"
                    )
                if path in written:
                    raise FileRefused(f"the VM sent {path!r} twice")
                target = None if each.same_as is None else f"{name}/{_path_below(each.same_as, masker)}"
                member = tarfile.TarInfo(path)
                member.mode = 0o755 if each.executable else 0o644
                if target is None:
                    with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as content:
                        content.writelines(_masked(each.chunks, masker))
                        member.size = content.tell()
                        content.seek(0)
                        tar.addfile(member, content)
                elif target in written:
                    member.type, member.linkname = tarfile.LNKTYPE, target
                    tar.addfile(member)
                written.add(path)
            for _ in chunks:
                pass
        except vms.InvalidDownload as error:
            raise FileRefused(str(error)) from error


def _path_below(path: str, masker: Masker) -> str:
    """Return a path of a tar, which has to lead below its folder, in text. Raises FileRefused. Pure."""
    if path.startswith("/") or {"", ".", ".."}.intersection(path.split("/")) or "\0" in path:
        raise FileRefused(f"the VM sent the path {path[:100]!r}, which leads out of the folder")
    return masker.masked(path.encode("utf-8", "surrogateescape").decode(errors="replace"))


def _plain_name(path: str) -> str:
    """Return the last part of a path as a name to save it under. Pure."""
    parts = [each for each in path.split("/") if each not in {"", ".", ".."}]
    return "".join(c if c.isprintable() and c not in '\\:"' else "_" for c in parts[-1])[:100] if parts else "disk"
