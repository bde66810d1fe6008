"""The submodules of a commit, as its tree and its `.gitmodules` have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.repositories.fetching.git import CommitRefused, GitError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.repositories.fetching.mirror import Mirror

MOST_SUBMODULES = 256
"""The most submodules of a commit, with theirs."""

_FILE = ".gitmodules"
_LONGEST_PATH = 4096
_LINK, _BLOB = "160000", "100644"


@immutable
class Submodule:
    """A folder of a commit that is a commit of another repository; ``url`` is as `.gitmodules` has it."""

    path: str
    url: str
    commit: str


def submodules_of(mirror: Mirror, commit: str) -> list[Submodule]:
    """Return the submodules of a commit. Raises CommitRefused for a `.gitmodules` that git cannot read.

    The tree decides: a path that is no submodule there, such as a link, is none. One without a URL stays empty.
    """
    try:
        if [kind for kind, _, _ in _entries(mirror, commit, _FILE)] != [_BLOB]:
            return []
        listed = mirror.run("config", "--blob", f"{commit}:{_FILE}", "-z", "--list")
        urls = dict(_urls(listed.decode(errors="surrogateescape")))
        if len(urls) > MOST_SUBMODULES:
            raise CommitRefused(f"{_FILE} names more than {MOST_SUBMODULES} submodules")
        links = {name: found for kind, found, name in _entries(mirror, commit, *urls) if kind == _LINK} if urls else {}
    except CommitRefused:
        raise
    except GitError as error:
        raise CommitRefused(f"{_FILE} cannot be read: {error}") from error
    return [Submodule(path, urls[path], found) for path, found in links.items()]


def _entries(mirror: Mirror, commit: str, *paths: str) -> Iterator[tuple[str, str, str]]:
    """Yield mode, object and path of those of the paths that a commit has."""
    listed = mirror.run("ls-tree", "-z", "--full-tree", commit, "--", *paths)
    for line in listed.decode(errors="surrogateescape").split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mode, _, name = facts.split(" ")
        yield mode, name, path


def _urls(listed: str) -> Iterator[tuple[str, str]]:
    """Yield path and URL of each submodule that has both, of the output of git config."""
    settings: dict[str, dict[str, str]] = {}
    for line in listed.split("\0"):
        key, _, value = line.partition("\n")
        section, _, rest = key.partition(".")
        name, _, key = rest.rpartition(".")
        if section == "submodule" and name and value:
            settings.setdefault(name, {})[key] = value
    for each in settings.values():
        path = each.get("path", "").rstrip("/")
        if "url" in each and 0 < len(path) <= _LONGEST_PATH and not {"", ".", ".."} & set(path.split("/")):
            yield path, each["url"]
