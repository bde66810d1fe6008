"""The system user of the service, and the 65,536 sub-ids that its VMs run under."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.install.host import USER, Host, InstallError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

_ID_COUNT = 65_536
_FIRST_ID = 100_000
_MAX_ID = 2**32 - 1


@immutable
class _IdRange:
    owner: str
    start: int
    end: int

    def overlaps(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


def ids(host: Host) -> tuple[int, int]:
    """Return the ids of the user and of its group; -1, which no account has, for a missing one."""
    return int(_id_of(host, "passwd") or -1), int(_id_of(host, "group") or -1)


def check(host: Host) -> str | None:
    """Return a text that names the missing parts of user, group and sub-ids; None if nothing is missing.

    Raises InstallError if another account has some of the same sub-ids.
    """
    missing = []
    if _id_of(host, "passwd") is None or _id_of(host, "group") is None:
        missing.append(f"the system user {USER}")
    for name in ("subuid", "subgid"):
        own = _own_range(host, name)
        if own is None:
            missing.append(f"{_ID_COUNT} ids in {host.root / 'etc' / name} for it")
        else:
            _refuse_shared(host, name, own)
    return f"create {' and '.join(missing)}" if missing else None


def create(host: Host) -> None:
    """Create the missing user, group and sub-ids. Raises InstallError."""
    if _id_of(host, "group") is None:
        host.run("groupadd", "--system", USER)
    if _id_of(host, "passwd") is None:
        home = ("--home-dir", f"/{host.state.relative_to(host.root)}", "--no-create-home")
        host.run("useradd", "--system", "--gid", USER, *home, "--shell", "/usr/sbin/nologin", USER)
    start = _free_start(host)
    for name in ("subuid", "subgid"):
        if _own_range(host, name) is None:
            host.run("usermod", f"--add-{name}s", f"{start}-{start + _ID_COUNT - 1}", USER)


def _own_range(host: Host, name: str) -> _IdRange | None:
    """Return the user's range that VMs use: the first that is large enough."""
    owners = {USER, _id_of(host, "passwd")}
    large = (each for each in _ranges(host, name) if each.end - each.start >= _ID_COUNT)
    return next((each for each in large if each.owner in owners), None)


def _free_start(host: Host) -> int:
    """Return the start of a free range: neither sub-ids of others nor users or groups of the host."""
    taken = [*_ranges(host, "subuid"), *_ranges(host, "subgid"), *_accounts(host)]
    start = _FIRST_ID
    while overlapping := [each for each in taken if each.overlaps(start, start + _ID_COUNT)]:
        start = max(each.end for each in overlapping)
    if start + _ID_COUNT > _MAX_ID:
        raise InstallError(f"no {_ID_COUNT} ids in a row are free: see {host.root / 'etc/subuid'}")
    return start


def _refuse_shared(host: Host, name: str, own: _IdRange) -> None:
    file = host.root / "etc" / name
    used = _IdRange(own.owner, own.start, own.start + _ID_COUNT)
    others = (each for each in _ranges(host, name) if each.owner != own.owner)
    if shared := next((each for each in others if each.overlaps(used.start, used.end)), None):
        raise InstallError(
            f"the ids {used.start} to {used.end - 1} of {USER} in {file} also belong to {shared.owner},"
            " whose programs could access VMs: remove one of the two lines from the file"
        )


def _ranges(host: Host, name: str) -> list[_IdRange]:
    rows = (row for row in _rows(host, name) if row[1:2] and row[2:3] and row[1].isdigit() and row[2].isdigit())
    return [_IdRange(owner, int(start), int(start) + int(count)) for owner, start, count, *_ in rows]


def _accounts(host: Host) -> list[_IdRange]:
    rows = [*_rows(host, "passwd"), *_rows(host, "group")]
    return [_IdRange(row[0], int(row[2]), int(row[2]) + 1) for row in rows if row[2:3] and row[2].isdigit()]


def _id_of(host: Host, file: str) -> str | None:
    return next((row[2] for row in _rows(host, file) if row[0] == USER), None)


def _rows(host: Host, name: str) -> Sequence[Sequence[str]]:
    try:
        text = (host.root / "etc" / name).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [line.strip().split(":") for line in text.splitlines()]
