"""Links to the current release: to its command, its manual page and its completion in shells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.manual.shared_files import SHARED_FILES

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.install.host import Host


def check(host: Host) -> str | None:
    """Return what is to be done, None if every link is there."""
    wrong = [str(link) for link, target in _links(host).items() if not link.is_symlink() or link.readlink() != target]
    return f"link {', '.join(wrong)} to the current release" if wrong else None


def make(host: Host) -> None:
    """Make the links in the place of whatever is there."""
    for link, target in _links(host).items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def present(host: Host) -> list[Path]:
    """Return the links that are there."""
    return [link for link, target in _links(host).items() if link.is_symlink() and link.readlink() == target]


def remove(host: Host) -> None:
    """Remove the links."""
    for link in present(host):
        link.unlink()


def _links(host: Host) -> dict[Path, Path]:
    now = host.opt / "current"
    return {
        host.command: now / "bin/ci-daemon",
        **{host.share / name: now / "share" / name for name in SHARED_FILES},
    }
