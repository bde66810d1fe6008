"""Objects of git LFS, fetched in the way that a repository's host has for them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from actors.repositories.fetching.git import GitError, LimitReached
from actors.repositories.fetching.lfs_access import LfsAccess, access_by_ssh
from actors.repositories.fetching.lfs_server import LfsServer
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors.repositories.fetching.mirror import Mirror

_AT_ONCE = 100


@immutable
class Selection:
    """The files that a repository wants fetched: patterns of its `.lfsconfig`, with commas between."""

    include: str = ""
    exclude: str = ""

    @classmethod
    def of(cls, mirror: Mirror, commit: str) -> Selection:
        """Read the selection of a commit."""
        return cls(*(_setting(mirror, commit, f"lfs.fetch{each}") for each in ("include", "exclude")))

    def has(self, path: str) -> bool:
        """Tell whether a file is wanted."""
        return (not self.include or _matches(self.include, path)) and not _matches(self.exclude, path)


def object_path(mirror: Mirror, oid: str) -> Path:
    """Return the file of an object in a mirror, as git-lfs names it."""
    return mirror.path / "lfs" / "objects" / oid[:2] / oid[2:4] / oid


def fetch_objects(mirror: Mirror, commit: str, objects: Mapping[str, int]) -> None:
    """Fetch objects of a commit, whose sizes are given by name. Raises GitError.

    Over HTTP the service asks for them itself. git-lfs fetches from paths, and by ssh from hosts that have all of the
    protocol there.
    """
    size = sum(objects.values())
    if size > mirror.git.free_bytes():
        raise LimitReached(f"{size >> 20} MB more would be too much: raise repositories.max_mirror_gb")
    remote = mirror.git.remote
    match remote.protocol:
        case "file":
            _fetch_by_git_lfs(mirror, commit)
        case "https":
            _fetch_over_http(mirror, LfsAccess(remote.lfs_url), objects)
        case "ssh" if access := access_by_ssh(mirror):
            _fetch_over_http(mirror, access, objects)
        case "ssh":
            try:
                _fetch_by_git_lfs(mirror, commit)
            except GitError as error:
                missing = f"{remote.host} has no git-lfs-authenticate, and fetching by git-lfs-transfer failed"
                raise GitError(f"{missing}: {error}") from error


def _fetch_over_http(mirror: Mirror, access: LfsAccess, objects: Mapping[str, int]) -> None:
    server, waiting = LfsServer(mirror), iter(objects.items())
    try:
        while some := dict(islice(waiting, _AT_ONCE)):
            for oid, action in server.batch(access, some).items():
                target = object_path(mirror, oid)
                target.parent.mkdir(parents=True, exist_ok=True)
                server.download(action, oid, some[oid], target)
    finally:
        server.close()


def _fetch_by_git_lfs(mirror: Mirror, commit: str) -> None:
    chosen = Selection.of(mirror, commit)
    patterns = (f"--include={chosen.include}", f"--exclude={chosen.exclude}")
    url = mirror.git.remote.lfs_url
    mirror.git.fetch(
        "lfs", "fetch", *patterns, url, commit, at=mirror.path, seconds=mirror.seconds, credential=mirror.credential
    )


def _setting(mirror: Mirror, commit: str, name: str) -> str:
    try:
        return mirror.run("config", "--blob", f"{commit}:.lfsconfig", "--get", name).decode(errors="replace").strip()
    except GitError:  # there is none
        return ""


def _matches(patterns: str, path: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few repositories have such patterns

    return GitIgnoreSpec.from_lines(each.strip() for each in patterns.split(",")).match_file(path)
