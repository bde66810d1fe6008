"""The ids that VMs run under, and programs run with these ids.

They are the caller's first range in ``/etc/subuid`` and ``/etc/subgid`` that this process's user namespace has: a
container may have few ids. Root of a VM is the first id of the range, never the caller, even if root started the
service (engine.md, "Leases").
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from actors.vms.launcher.broker import ROOT_ENVIRONMENT, launcher_argv
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SIZE = 65536
"""The ids of a VM's outer user namespace, which include all users of the VM (``launcher/shares.py``)."""

CALLER = SIZE
"""The caller's id inside ``IdMap.with_caller()``."""

_FIRST_FREE = 100_000
_FIRST_OF_CONTAINER = 1
"""An ordinary user's container has that user as 0, and after it one range."""
_GROUP_AND_OTHERS = 0o077


class NoSubIds(VmError):
    """The caller has no range of 65,536 sub-ids, or no program to map it; the message says what to run."""


class MappedProgramFailed(VmError):
    """A program inside the mapping ended with a non-zero status; the message holds the end of its stderr."""


@immutable
class Extent:
    """``count`` ids that begin at ``inside`` in the namespace and at ``outside`` on the host."""

    inside: int
    outside: int
    count: int

    def __str__(self) -> str:
        return f"{self.inside} {self.outside} {self.count}"


@immutable
class IdMap:
    """A mapping of ids in a user namespace to ids of the host; the first extent holds the VM's own."""

    uids: tuple[Extent, ...]
    gids: tuple[Extent, ...]

    @classmethod
    def of_caller(cls, etc: Path = Path("/etc"), process: Path = Path("/proc/self")) -> IdMap:
        """Find the range of this process's user, by login name or numeric id.

        Raises NoSubIds with the command that gives one.
        """
        caller = _login()
        uids, gids = _ranges(etc / "subuid"), _ranges(etc / "subgid")
        has_uids, has_gids = _mapped(process / "uid_map"), _mapped(process / "gid_map")
        uid, gid = _first_range_of(uids, caller, has_uids), _first_range_of(gids, caller, has_gids)
        if uid is None or gid is None:
            start = _free([*uids, *gids], has_uids, has_gids)
            raise NoSubIds(_usermod_command(caller.pw_name, start, uid=uid, gid=gid))
        if os.geteuid() != 0 and not (shutil.which("newuidmap") and shutil.which("newgidmap")):
            message = "newuidmap and newgidmap are not installed: run `sudo apt-get install -y uidmap`"
            raise NoSubIds(message)
        return cls((Extent(0, uid, SIZE),), (Extent(0, gid, SIZE),))

    @property
    def root_uid(self) -> int:
        """The host's id of the VM's root user."""
        return self.uids[0].outside

    def with_caller(self) -> IdMap:
        """Return this mapping with the caller's own user and group added, as id 65536.

        It serves to move and remove files of both. If the caller is root, a program in it may write every file of root:
        never run anything in it that came from a VM or an image.
        """
        return IdMap(
            (self.uids[0], Extent(CALLER, os.geteuid(), 1)),
            (self.gids[0], Extent(CALLER, os.getegid(), 1)),
        )

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the argv that runs ``argv`` as root of this mapping, in a user namespace of its own.

        The working directory and the inherited descriptors are opened before the change of ids, so they may be in
        places that the mapped ids cannot enter. A program that is not reached through these must be in a folder open to
        all.
        """
        maps = [",".join(map(str, extents)) for extents in (self.uids, self.gids)]
        return launcher_argv("enter", *maps, *argv)


def run_mapped(
    argv: Sequence[str],
    *,
    idmap: IdMap,
    cwd: Path,
    stdin: IO[bytes] | None = None,
    pass_fds: Iterable[int] = (),
    timeout: float | None = None,
) -> bytes:
    """Run a program as root of the mapping, in ``cwd``, with a minimal environment; return its output.

    Raises MappedProgramFailed on a non-zero status, and after ``timeout`` seconds, when the program is killed.
    """
    import subprocess  # noqa: PLC0415 - most processes look at images and run nothing

    try:
        done = subprocess.run(
            idmap.command(argv),
            cwd=cwd,
            env=ROOT_ENVIRONMENT,
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            pass_fds=tuple(pass_fds),
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"`{shlex.join(argv)}` took longer than {timeout:g} s and was killed"
        raise MappedProgramFailed(message) from error
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()[-2000:] or "it printed nothing"
        message = f"`{shlex.join(argv)}` failed with status {done.returncode}: {reason}"
        raise MappedProgramFailed(message)
    return done.stdout


def restrict_to_owner(folder: Path) -> None:
    """Let only its owner enter a folder with files of the VMs' ids.

    Does nothing if the folder is missing or another user's. Programs with the VMs' ids get into it by their working
    directory or a descriptor.
    """
    with suppress(FileNotFoundError):
        found = folder.stat()
        if found.st_uid == os.geteuid() and found.st_mode & _GROUP_AND_OTHERS:
            folder.chmod(found.st_mode & ~_GROUP_AND_OTHERS & 0o7777)


@immutable
class _SubIdRange:
    owner: str
    start: int
    count: int


def _login() -> pwd.struct_passwd:
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid)
    except KeyError as error:
        message = f"user id {uid} has no entry in /etc/passwd, so it can have no sub-ids: run as a user that has a name"
        raise NoSubIds(message) from error


def _ranges(path: Path) -> list[_SubIdRange]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    fields = (line.strip().split(":") for line in lines)
    three = (f for f in fields if len(f) == 3)  # noqa: PLR2004 - name, start, count
    return [_SubIdRange(f[0], int(f[1]), int(f[2])) for f in three if f[1].isdigit() and f[2].isdigit()]


def _mapped(path: Path) -> list[range]:
    """Return the ids that a user namespace has, from the map of one of its processes."""
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return [range(int(inside), int(inside) + int(count)) for inside, _, count in lines]


def _has(mapped: Sequence[range], start: int) -> bool:
    """Tell whether all ids of a range that begins at ``start`` are mapped."""
    parts = (min(each.stop, start + SIZE) - max(each.start, start) for each in mapped)
    return sum(max(part, 0) for part in parts) == SIZE


def _first_range_of(ranges: Iterable[_SubIdRange], caller: pwd.struct_passwd, mapped: Sequence[range]) -> int | None:
    names = {caller.pw_name, str(caller.pw_uid)}
    own = (r for r in ranges if r.owner in names and r.count >= SIZE)
    return next((r.start for r in own if _has(mapped, r.start)), None)


def _free(taken: Sequence[_SubIdRange], *mapped: Sequence[range]) -> int:
    """Return the start of a range that nobody has. Raises NoSubIds if this user namespace has too few ids."""
    start = _FIRST_FREE
    while any(r.start < start + SIZE and start < r.start + r.count for r in taken):
        start += SIZE
    for each in (start, _FIRST_OF_CONTAINER):
        if all(_has(ids, each) for ids in mapped):
            return each
    message = f"this container has too few ids, and VMs need {SIZE} besides its own: start it with {SIZE + 1} or more"
    raise NoSubIds(message)


def _usermod_command(name: str, start: int, *, uid: int | None, gid: int | None) -> str:
    span = f"{start}-{start + SIZE - 1}"
    lacking = [(uid, "uids", "/etc/subuid"), (gid, "gids", "/etc/subgid")]
    files = " and ".join(file for found, _, file in lacking if found is None)
    options = " ".join(f"--add-sub{kind} {span}" for found, kind, _ in lacking if found is None)
    return f"{name} has no range of {SIZE} ids in {files}: run `sudo usermod {options} {name}`"
