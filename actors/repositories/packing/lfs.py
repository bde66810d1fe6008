"""The files of git LFS: pointers in a commit, and the objects that take their places in a source."""

from __future__ import annotations

import re
import tarfile
from typing import TYPE_CHECKING

from actors.repositories.fetching.git import CommitRefused, GitError
from actors.repositories.fetching.lfs import Selection, fetch_objects, object_path
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from actors.repositories.fetching.mirror import Mirror

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:(?P<oid>[0-9a-f]{64})\nsize (?P<size>[0-9]{1,15})\n"
)
_LARGEST = 1024
"""The most bytes of a pointer, by the specification of git LFS."""

_LONGEST_PATH = 4096
_AT_ONCE = 100


@immutable
class Pointer:
    """The stand-in for a file in a commit: the hash of its content, and its size."""

    oid: str
    size: int

    def object_in(self, mirror: Mirror) -> Path:
        """Return the file that has the content, once it was fetched."""
        return object_path(mirror, self.oid)


def pointers_in(mirror: Mirror, files: Path, history: Path) -> dict[str, Pointer]:
    """Return the pointers in an archive of a commit, by path, that its attributes call files of git LFS.

    Raises GitError.
    """
    found = {}
    with tarfile.open(files) as tar:
        for member in tar:
            small = member.isreg() and member.size <= _LARGEST and len(member.name) <= _LONGEST_PATH
            content = tar.extractfile(member) if small else None
            if content is not None and (match := _POINTER.fullmatch(content.read())):
                found[member.name] = Pointer(match["oid"].decode(), int(match["size"]))
    paths = list(found)
    tracked: set[str] = set()
    for start in range(0, len(paths), _AT_ONCE):
        tracked |= _tracked(mirror, paths[start : start + _AT_ONCE], history)
    return {path: pointer for path, pointer in found.items() if path in tracked}


def without_excluded(mirror: Mirror, commit: str, pointers: Mapping[str, Pointer]) -> dict[str, Pointer]:
    """Return the pointers but for those that the `.lfsconfig` of the commit excludes from fetches."""
    chosen = Selection.of(mirror, commit)
    return {path: pointer for path, pointer in pointers.items() if chosen.has(path)}


def fetch_contents(mirror: Mirror, commit: str, pointers: Mapping[str, Pointer]) -> dict[str, Path]:
    """Return the files with the contents, by path. Raises CommitRefused, also for a wrong size."""
    missing = {each.oid: each.size for each in pointers.values() if not each.object_in(mirror).exists()}
    if missing:
        try:
            fetch_objects(mirror, commit, missing)
        except GitError as error:
            raise CommitRefused(f"the files of git LFS cannot be fetched: {error}") from error
    contents = {path: each.object_in(mirror) for path, each in pointers.items()}
    for path, content in contents.items():
        if content.stat().st_size != pointers[path].size:
            raise CommitRefused(f"{path} of git LFS has {content.stat().st_size} bytes, and not {pointers[path].size}")
    return contents


def _tracked(mirror: Mirror, paths: Iterable[str], history: Path) -> set[str]:
    """Return the paths that the `.gitattributes` of a repository's index give to git LFS."""
    asked = ("--work-tree=.", "check-attr", "-z", "--cached", "filter", "--", *paths)
    answer = mirror.git.run(*asked, at=history, seconds=mirror.seconds).decode(errors="surrogateescape").split("\0")
    return {path for path, value in zip(answer[0::3], answer[2::3], strict=False) if value == "lfs"}
