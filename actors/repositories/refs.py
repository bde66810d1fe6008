"""Names of what to build, as people write them: a branch, a tag, a commit or a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.language.names import nearest
from actors.repositories.fetching.remote import GitError
from storage import immutable

if TYPE_CHECKING:
    from actors.repositories.fetching.mirror import Heads, Mirror

_BRANCH, _TAG = "refs/heads/", "refs/tags/"
_PULL_REQUEST = re.compile(r"(?:#|(?:refs/)?pull/)([0-9]{1,9})(?:/head)?")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@immutable
class FoundRef:
    """The commit that a name stands for, and the branch or tag that has it."""

    ref: str
    commit: str

    @property
    def tag(self) -> str | None:
        """The name of the tag, None if it is a branch."""
        return self.ref.removeprefix(_TAG) if self.ref.startswith(_TAG) else None

    @property
    def name(self) -> str:
        """The name of the branch or tag."""
        return self.tag or self.ref.removeprefix(_BRANCH)


def pull_request_of(name: str) -> int | None:
    """Return the number of a pull request named as ``#7`` or ``pull/7``; None if it is another name."""
    found = _PULL_REQUEST.fullmatch(name)
    return None if found is None else int(found[1])


def found_ref(mirror: Mirror, heads: Heads, name: str) -> FoundRef:
    """Return what a name stands for in a mirror that was just fetched. Raises GitError if nothing.

    A commit has to be in a branch or a tag: hosts give out others, too, such as those of anybody's pull request.
    """
    found = [ref for ref in (name, f"{_BRANCH}{name}", f"{_TAG}{name}") if ref in heads.commits]
    if len(found) > 1:
        raise GitError(f"{quoted(name)} is a branch and a tag: write {' or '.join(found)}")
    if found:
        return FoundRef(found[0], heads.commits[found[0]])
    if _COMMIT.fullmatch(name.lower()) and (of_commit := _of_commit(mirror, heads, name.lower())) is not None:
        return of_commit
    known = [each.removeprefix(_BRANCH).removeprefix(_TAG) for each in heads.commits]
    raise GitError(f"there is no branch, tag or commit {quoted(name)}{nearest(name, known)}")


def _of_commit(mirror: Mirror, heads: Heads, name: str) -> FoundRef | None:
    """Return the commit whose name begins like this, in the default branch if it is there."""
    try:
        commit = mirror.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
        printed = mirror.run("for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/heads", "refs/tags")
    except GitError:
        return None
    having = [ref for ref in printed.decode(errors="replace").splitlines() if ref in heads.commits]
    default = f"{_BRANCH}{heads.default_branch}"
    having.sort(key=lambda ref: (ref != default, not ref.startswith(_BRANCH), ref))
    return FoundRef(having[0], commit) if having else None
