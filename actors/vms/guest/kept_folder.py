"""Folders of a job's disk as tars, packed in its VM and laid there (engine.md, "Kept folders").

The host never looks into such a tar: it is what an earlier job has left. It is packed and unpacked by the service's own
programs, in a mount in which all but the workspace, or root's home, is read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.guest import in_home, in_workspace, script
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.vms.ssh.connection import Connection
    from actors.vms.ssh.files import FileBytes

_MISSING, _TOO_MANY, _OUTSIDE, _TAKEN = 67, 68, 66, 69
_REASONS = {
    _TOO_MANY: "it has more than {most:,} files",
    _OUTSIDE: "a link leads out of its place",
}
_ANSWER_BYTES = 1 << 16
_HOME = "~/"
_TEMPORARY = "./.ci-kept"


class FolderNotKept(VmError):
    """A folder cannot be packed or laid; the message says why."""


def lay_folder(connection: Connection, path: str, tar: Iterable[bytes | FileBytes], *, timeout: float) -> bool:
    """Lay a packed folder into a VM; False and no change if something is there already.

    ``path`` is relative to the workspace, or begins with ``~/`` for root's home. Raises FolderNotKept, ConnectionLost
    and CommandTimeout.
    """
    program = _in_place(path, "lay_folder", temporary=_TEMPORARY)
    with connection.transfer(program, stdin=tar, timeout=timeout) as laying:
        done = laying.complete(_ANSWER_BYTES)
    if done.exit_code not in {0, _TAKEN}:
        raise FolderNotKept(_reason(done.exit_code, done.stderr))
    return done.exit_code == 0


def fingerprint_of(connection: Connection, path: str, *, timeout: float) -> str | None:
    """Return what changes with the files of a folder; None if there is no folder.

    Arguments and errors are those of `lay_folder`.
    """
    with connection.transfer(_in_place(path, "list_folder"), timeout=timeout) as listing:
        done = listing.complete(_ANSWER_BYTES)
    if done.exit_code == _MISSING:
        return None
    if done.exit_code != 0:
        raise FolderNotKept(_reason(done.exit_code, done.stderr))
    return done.stdout.decode(errors="replace").split()[0][:64]


def pack_folder(
    connection: Connection, path: str, *, most_files: int, most_bytes: int, timeout: float
) -> Iterator[bytes]:
    """Yield the tar of a folder; errors are those of `lay_folder`, and FolderNotKept if it is too large."""
    left = most_bytes
    with connection.transfer(_in_place(path, "pack_folder", most=most_files), timeout=timeout) as packed:
        for chunk in packed:
            left -= len(chunk)
            if left < 0:
                message = f"it has more than {most_bytes:,} bytes (cache.folder_gb)"
                raise FolderNotKept(message)
            yield chunk
    if packed.exit_code != 0:
        raise FolderNotKept(_reason(packed.exit_code, packed.stderr, most_files))


def _in_place(path: str, name: str, **settings: str | float) -> str:
    place = in_home if path.startswith(_HOME) else in_workspace
    folder = f"./{path.removeprefix(_HOME)}"
    return place(script("kept_folder", name, path=folder, **settings))


def _reason(exit_code: int, stderr: bytes, most: int = 0) -> str:
    if exit_code in _REASONS:
        return _REASONS[exit_code].format(most=most)
    return stderr.decode(errors="replace").strip()[-300:] or f"exit code {exit_code}"
