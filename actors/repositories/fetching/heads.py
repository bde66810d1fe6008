"""The heads of a repository, read from what git prints. Pure."""

from __future__ import annotations

import re
from contextlib import suppress

from storage import immutable

FORMAT = "%(objectname) %(objecttype) %(*objectname) %(*objecttype) %(refname)"
"""The format of `git for-each-ref` that `found_heads` reads."""

NAMES = ("HEAD", "refs/heads/*", "refs/tags/*")
"""The names for which `git ls-remote --symref` prints what `listed_heads` reads."""

_REF = re.compile(r"ref: (refs/heads/\S+)\tHEAD")
_BRANCH = "refs/heads/"
_MAX_NAME = 255


@immutable
class Heads:
    """The commits of a repository's branches and tags, by full name, and its default branch."""

    commits: dict[str, str]
    default_branch: str | None

    def branches(self, *names: str | None) -> dict[str, str]:
        """Return those of some branches that exist, by name."""
        return {each: self.commits[ref] for each in names if each and (ref := f"{_BRANCH}{each}") in self.commits}


def listed_heads(printed: bytes) -> Heads:
    """Return the heads that `git ls-remote` printed; names that are too long are left out."""
    commits: dict[str, str] = {}
    default = None
    for line in printed.splitlines():
        with suppress(UnicodeDecodeError, ValueError):
            sha, ref = line.decode().split("\t")
            if sha.startswith("ref: ") and ref == "HEAD":
                default = sha.removeprefix(f"ref: {_BRANCH}")
            elif ref != "HEAD" and len(ref) <= _MAX_NAME:
                commits[ref.removesuffix("^{}")] = sha  # the commit of an annotated tag follows the tag
    return Heads(commits, default)


def found_heads(printed: bytes) -> dict[str, str]:
    """Return the commits of branches and tags that `git for-each-ref` printed.

    Tags of other objects and unusable names are left out.
    """
    commits = {}
    for line in printed.splitlines():
        with suppress(UnicodeDecodeError):
            sha, kind, tagged, tagged_kind, ref = line.decode().split(" ", 4)
            commit = sha if kind == "commit" else tagged if tagged_kind == "commit" else None
            if commit is not None and len(ref) <= _MAX_NAME:
                commits[ref] = commit
    return commits


def default_branch(printed: bytes) -> str | None:
    """Return the branch that HEAD names, as `git ls-remote --symref` printed it."""
    found = _REF.search(printed.decode(errors="replace"))
    return found[1].removeprefix(_BRANCH) if found else None
