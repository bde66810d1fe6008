"""Make a VM's workspace match a source archive, by manifest (engine.md, "The workspace")."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from itertools import chain
from typing import TYPE_CHECKING

from actors.vms.guest import in_workspace, script
from actors.vms.guest.source_archive import DAMAGE_ERRORS, SourceError
from actors.vms.provider import VmError
from actors.vms.ssh.files import FileBytes
from storage import immutable
from storage.files import EntryKind, changed_entries, differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from actors.vms.ssh.connection import Connection
    from storage.files import Difference, Entry


_CHUNK_BYTES = 1 << 18
_PACKET = 1 << 16
_ANSWER_BYTES = 1 << 16
_TAR_BLOCK = 512
_NAME_BYTES = 100
_SIZE, _SUM = slice(124, 136), slice(148, 156)
"""The places of a file's size and of the header's sum in the header."""

_REFUSED_EXIT = 69
_KINDS = {EntryKind.FILE: tarfile.REGTYPE, EntryKind.FOLDER: tarfile.DIRTYPE, EntryKind.LINK: tarfile.SYMTYPE}


def update_workspace(
    connection: Connection,
    archive: Path,
    manifest: Path | None,
    current: Path | None = None,
    *,
    time: int,
    timeout: float = 600.0,
) -> None:
    """Make the VM's workspace match an archive, owned by root. Safe to repeat after a crash.

    Entries that are equal in both manifests stay, and so do files in neither; all else is removed or written. If a step
    has put something else in place of a folder with a difference below it, everything is written anew.

    Args:
        connection: to the VM, in which no command has been started yet.
        archive: the gzipped tar that ``manifest`` describes.
        manifest: None for a build without a source: then nothing of an earlier archive stays.
        current: the manifest of the archive that this disk already has, or None.
        time: modification time of what is written, in whole seconds since the epoch.
        timeout: seconds for each command in the VM.

    Raises:
        SourceError: the VM cannot unpack it, or the archive does not match the manifest.
        ManifestUnreadable, ConnectionLost, CommandTimeout.
    """
    update = _WorkspaceUpdate(connection, archive, manifest, current, time, timeout)
    if current is None:
        if update.write(everything=True, empty=True):
            return
    elif next(differences(manifest, current), None) is None:
        return
    elif update.clear(everything=False):
        update.write(everything=False)
        return
    update.clear(everything=True)
    update.write(everything=True)


class FilesNotLaid(VmError):
    """Files cannot be put into a workspace; the message says why. Another attempt would not help."""


@immutable
class LaidFile:
    """A file to put into a workspace: its path there, and the file on this host with its size in bytes."""

    path: str
    size: int
    executable: bool
    file: Path


def lay_files(connection: Connection, files: Iterable[LaidFile], *, time: int, timeout: float = 600.0) -> None:
    """Put files into the VM's workspace, owned by root. Safe to repeat after a crash.

    Each replaces what is in its place. Arguments are those of `update_workspace`. Raises FilesNotLaid, ConnectionLost
    and CommandTimeout.
    """
    program = in_workspace(script("unpack", empty=""))
    with connection.transfer(program, stdin=_packets(_tar_of_files(files, time)), timeout=timeout) as laying:
        done = laying.complete(_ANSWER_BYTES)
    if done.exit_code != 0:
        reason = done.stderr.decode(errors="replace").strip()[-1000:]
        message = f"the files of other jobs cannot be put into the workspace: {reason}"
        raise FilesNotLaid(message)


def change_files(
    connection: Connection,
    written: Mapping[str, tuple[bytes, bool]],
    removed: Iterable[str],
    *,
    time: int,
    timeout: float = 600.0,
) -> None:
    """Write files of the VM's workspace, and remove others.

    Each has its content, and whether it is executable. Raises VmError, ConnectionLost and CommandTimeout.
    """
    tar = b"".join(_tar_of_contents(written, time))
    names = b"".join(b"./%s\0" % path.encode(errors="surrogateescape") for path in removed)
    for program, stdin in (("exec xargs -0r rm -f --", names), (script("unpack", empty=""), tar)):
        done = connection.run(in_workspace(program), stdin=stdin, timeout=timeout)
        if done.exit_code != 0:
            reason = done.stderr.decode(errors="replace").strip()[-1000:]
            message = f"the files cannot be changed in the workspace: {reason}"
            raise VmError(message)


def _tar_of_contents(files: Mapping[str, tuple[bytes, bool]], time: int) -> Iterator[bytes]:
    for path, (content, executable) in files.items():
        member = tarfile.TarInfo(path)
        member.mode, member.mtime, member.size = 0o755 if executable else 0o644, time, len(content)
        yield member.tobuf(tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape")
        yield content
        yield bytes(-len(content) % _TAR_BLOCK)
    yield bytes(2 * _TAR_BLOCK)


def _tar_of_files(files: Iterable[LaidFile], time: int) -> Iterator[bytes | FileBytes]:
    headers = _FileHeaders(time)
    for each in files:
        yield headers.of(each)
        try:
            content = FileBytes(each.file, each.size) if each.size >= _PACKET else each.file.read_bytes()
            whole = each.size == (each.file.stat().st_size if isinstance(content, FileBytes) else len(content))
        except FileNotFoundError:
            content, whole = b"", False
        if not whole:
            message = f"the artifact {each.path} is no longer kept whole on this host: build again"
            raise FilesNotLaid(message)
        yield content
        yield bytes(-each.size % _TAR_BLOCK)
    yield bytes(2 * _TAR_BLOCK)


class _FileHeaders:
    """The headers of a tar of files that differ in path, size and mode alone.

    They are those of `tarfile`, of which one for each mode is changed: to make each anew takes five times as long.
    """

    def __init__(self, time: int) -> None:
        self._time = time
        self._pattern = {each: bytearray(self._made("", 0, executable=each)) for each in (False, True)}
        for header in self._pattern.values():
            header[_SUM] = b" " * 8
        self._sums = {each: sum(header) - sum(header[_SIZE]) for each, header in self._pattern.items()}

    def of(self, file: LaidFile) -> bytes:
        """Return the header of a file."""
        name, size = _raw(file.path), b"%011o\0" % file.size
        if not 0 < len(name) <= _NAME_BYTES or len(size) != _SIZE.stop - _SIZE.start:
            return self._made(file.path, file.size, executable=file.executable)
        header = self._pattern[file.executable].copy()
        header[: len(name)] = name
        header[_SIZE] = size
        header[_SUM] = b"%06o\0 " % (self._sums[file.executable] + sum(name) + sum(size))
        return bytes(header)

    def _made(self, path: str, size: int, *, executable: bool) -> bytes:
        member = tarfile.TarInfo(path)
        member.mode, member.mtime, member.size = 0o755 if executable else 0o644, self._time, size
        return member.tobuf(tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape")


def _raw(path: str) -> bytes:
    return path.encode(errors="surrogateescape")


@immutable
class _WorkspaceUpdate:
    """The arguments of `update_workspace`, and its steps. ``everything``: assume nothing of the disk."""

    connection: Connection
    archive: Path
    manifest: Path | None
    current: Path | None
    time: int
    timeout: float

    def clear(self, *, everything: bool) -> bool:
        """Remove what `write` must not find; False if a folder is no longer one."""
        found = differences(self.manifest, self.current, everything=everything)
        program = chain([script("clear").encode()], removal_script(found, everything=everything))
        return self._run("exec sh", program, may_refuse=not everything)

    def write(self, *, everything: bool, empty: bool = False) -> bool:
        """Write what differs; False if the workspace must be ``empty`` and is not, with nothing written."""
        if self.manifest is None:
            return True
        entries = changed_entries(self.manifest, self.current, everything=everything)
        program = script("unpack", empty="yes" if empty else "")
        return self._run(program, _tar(self.archive, entries, self.time), may_refuse=empty)

    def _run(self, program: str, stdin: Iterable[bytes], *, may_refuse: bool) -> bool:
        sent = self.connection.transfer(in_workspace(program), stdin=_packets(stdin), timeout=self.timeout)
        with sent:
            done = sent.complete(_ANSWER_BYTES)
        if done.exit_code != 0 and not (may_refuse and done.exit_code == _REFUSED_EXIT):
            reason = done.stderr.decode(errors="replace").strip()[-1000:]
            message = f"the source cannot be unpacked in the VM: {reason}"
            raise SourceError(message)
        return done.exit_code == 0


def _tar(archive: Path, entries: Iterable[Entry], time: int) -> Iterator[bytes]:
    """Yield a tar of the entries, with contents from the archive.

    ``entries`` are in the order of their starts in the archive. Raises SourceError if a file's contents are not those
    of its entry.
    """
    with gzip.open(archive) as unpacked:
        position = 0
        last: Entry | None = None
        for entry in entries:
            linked = last if last is not None and entry.kind is EntryKind.FILE and entry.start == last.start else None
            yield _header(entry, time, linked)
            if entry.kind is not EntryKind.FILE or linked is not None:
                continue
            try:
                while position < entry.start:
                    position += len(_read(unpacked, entry.start - position))
                digest = hashlib.sha256()
                while position < entry.start + entry.size:
                    chunk = _read(unpacked, entry.start + entry.size - position)
                    digest.update(chunk)
                    position += len(chunk)
                    yield chunk
            except DAMAGE_ERRORS as error:
                message = f"the source was damaged on this host: {error}"
                raise SourceError(message) from error
            if digest.digest() != entry.content:
                message = "the source was changed on this host during its build"
                raise SourceError(message)
            yield bytes(-entry.size % _TAR_BLOCK)
            last = entry
    yield bytes(2 * _TAR_BLOCK)


def _header(entry: Entry, time: int, linked: Entry | None) -> bytes:
    member = tarfile.TarInfo(_text(entry.path))
    member.mode, member.mtime = entry.mode, time
    member.type = _KINDS[entry.kind]
    if linked is not None:
        member.type, member.linkname = tarfile.LNKTYPE, _text(linked.path)
    elif entry.kind is EntryKind.LINK:
        member.linkname = _text(entry.content)
    else:
        member.size = entry.size
    return member.tobuf(tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape")


def _read(unpacked: gzip.GzipFile, size: int) -> bytes:
    chunk = unpacked.read(min(size, _CHUNK_BYTES))
    if not chunk:
        message = "it ends too early"
        raise EOFError(message)
    return chunk


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _packets(chunks: Iterable[bytes | FileBytes]) -> Iterator[bytes | FileBytes]:
    """Yield the same in chunks of at least 64 KiB, but for the one before a file and the last."""
    packet = bytearray()
    for chunk in chunks:
        if isinstance(chunk, FileBytes):
            yield bytes(packet)
            packet.clear()
            yield chunk
            continue
        packet += chunk
        if len(packet) >= _PACKET:
            yield bytes(packet)
            packet.clear()
    yield bytes(packet)


_BATCH = 200
"""Names in one command, far below the bytes that Linux allows for arguments."""


def removal_script(differences: Iterable[Difference], *, everything: bool = False) -> Iterator[bytes]:
    """Yield the shell program that clears a workspace of what a new source lacks or replaces.

    It walks the folders one by one and never through a link, even if a step has put something else in place of a
    folder. It calls the functions of ``guest/clear.sh``. It comes line by line, for differences in the order of
    `storage.files.differences`.

    Folders of both manifests must still be folders, else the program exits with 69. With ``everything`` it removes
    whatever is in place of a folder instead, because all of the new manifest is written afterwards.
    """
    walk = _Walk()
    replaced = b"/"
    yield b"{\n"
    for difference in differences:
        if difference.path.startswith(replaced):
            continue
        *folders, name = difference.path.split(b"/")
        yield from walk.to(folders)
        if difference.after is EntryKind.FOLDER:
            kept = difference.before is EntryKind.FOLDER and not everything
            yield from walk.down(name, b"kept" if kept else b"new")
        elif difference.after is None and difference.before is EntryKind.FOLDER:
            yield from walk.down(name, b"gone")
        else:
            yield from walk.drop(name)
            replaced = difference.path + b"/"
    yield from walk.end()
    yield b"exit 0\n}\n"


class _Walk:
    """The position of the program: the folders that it has entered, and the names to remove in the last."""

    def __init__(self) -> None:
        self._folders: list[tuple[bytes, bytes]] = []
        self._names: list[bytes] = []

    def to(self, folders: list[bytes]) -> Iterator[bytes]:
        """Go to a folder; folders on the way that are not among the differences are in both manifests."""
        here = [name for name, _ in self._folders]
        common = next((i for i, (a, b) in enumerate(zip(here, folders, strict=False)) if a != b), None)
        common = min(len(here), len(folders)) if common is None else common
        while len(self._folders) > common:
            yield from self._up()
        for name in folders[common:]:
            yield from self.down(name, b"kept")

    def down(self, name: bytes, state: bytes) -> Iterator[bytes]:
        """Enter a folder that is ``kept``, ``new`` or ``gone``."""
        yield from self._flush()
        self._folders.append((name, state))
        yield b"down %s %s\n" % (state, _quoted(name))

    def drop(self, name: bytes) -> Iterator[bytes]:
        """Remove a name from the current folder, whatever it is."""
        self._names.append(name)
        if len(self._names) == _BATCH:
            yield from self._flush()

    def end(self) -> Iterator[bytes]:
        """Go back to the start of the walk."""
        yield from self.to([])
        yield from self._flush()

    def _up(self) -> Iterator[bytes]:
        yield from self._flush()
        name, state = self._folders.pop()
        yield b"up\n"
        if state == b"gone":
            yield b"prune %s\n" % _quoted(name)

    def _flush(self) -> Iterator[bytes]:
        if self._names:
            yield b"drop %s\n" % b" ".join(map(_quoted, self._names))
            self._names = []


def _quoted(name: bytes) -> bytes:
    return b"'./" + name.replace(b"'", b"'\\''") + b"'"
