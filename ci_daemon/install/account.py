"""The system user of the service, and the 65,536 sub-ids that its VMs run under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci_daemon.install.host import USER, Host, InstallError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ids", "lacking", "make"]

_IDS = 65_536
_FIRST = 100_000
_PAST_ALL = 2**32 - 1


@dataclass(frozen=True, slots=True)
class _Range:
    owner: str
    start: int
    end: int

    def meets(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


def ids(host: Host) -> tuple[int, int]:
    """Return the ids of the user and of its group; -1, which no account has, for a missing one."""
    return int(_id_of(host, "passwd") or -1), int(_id_of(host, "group") or -1)


def lacking(host: Host) -> str | None:
    """Return a text that names what is missing of user, group and sub-ids; None if nothing is.

    Raises InstallError if another account has some of the same sub-ids.
    """
    wanted = []
    if _id_of(host, "passwd") is None or _id_of(host, "group") is None:
        wanted.append(f"the system user {USER}")
    for name in ("subuid", "subgid"):
        own = _own(host, name)
        if own is None:
            wanted.append(f"{_IDS} ids of {host.root / 'etc' / name} for it")
        else:
            _refuse_shared(host, name, own)
    return f"make {' and '.join(wanted)}" if wanted else None


def make(host: Host) -> None:
    """Create what is missing. Raises InstallError."""
    if _id_of(host, "group") is None:
        host.run("groupadd", "--system", USER)
    if _id_of(host, "passwd") is None:
        home = ("--home-dir", f"/{host.state.relative_to(host.root)}", "--no-create-home")
        host.run("useradd", "--system", "--gid", USER, *home, "--shell", "/usr/sbin/nologin", USER)
    start = _free(host)
    for name in ("subuid", "subgid"):
        if _own(host, name) is None:
            host.run("usermod", f"--add-{name}s", f"{start}-{start + _IDS - 1}", USER)


def _own(host: Host, name: str) -> _Range | None:
    """Return the user's range that VMs use: the first that is large enough."""
    owners = {USER, _id_of(host, "passwd")}
    return next((each for each in _ranges(host, name) if each.owner in owners and each.end - each.start >= _IDS), None)


def _free(host: Host) -> int:
    """Return the start of a free range: neither sub-ids of others nor users or groups of the host."""
    taken = [*_ranges(host, "subuid"), *_ranges(host, "subgid"), *_people(host)]
    start = _FIRST
    while met := [each for each in taken if each.meets(start, start + _IDS)]:
        start = max(each.end for each in met)
    if start + _IDS > _PAST_ALL:
        raise InstallError(f"no {_IDS} ids in a row are free: see {host.root / 'etc/subuid'}")
    return start


def _refuse_shared(host: Host, name: str, own: _Range) -> None:
    used = _Range(own.owner, own.start, own.start + _IDS)
    others = (each for each in _ranges(host, name) if each.owner != own.owner)
    if shared := next((each for each in others if each.meets(used.start, used.end)), None):
        raise InstallError(
            f"the ids {used.start} to {used.end - 1} of {USER} in {host.root / 'etc' / name} are also {shared.owner}'s,"
            " whose programs could reach into VMs: take that line of either out of the file"
        )


def _ranges(host: Host, name: str) -> list[_Range]:
    rows = (row for row in _rows(host, name) if row[1:2] and row[2:3] and row[1].isdigit() and row[2].isdigit())
    return [_Range(owner, int(start), int(start) + int(count)) for owner, start, count, *_ in rows]


def _people(host: Host) -> list[_Range]:
    rows = [*_rows(host, "passwd"), *_rows(host, "group")]
    return [_Range(row[0], int(row[2]), int(row[2]) + 1) for row in rows if row[2:3] and row[2].isdigit()]


def _id_of(host: Host, file: str) -> str | None:
    return next((row[2] for row in _rows(host, file) if row[0] == USER), None)


def _rows(host: Host, name: str) -> Sequence[Sequence[str]]:
    try:
        text = (host.root / "etc" / name).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [line.strip().split(":") for line in text.splitlines()]
