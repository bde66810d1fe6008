"""The merge of two commits, made in a mirror by closed git programs; nothing is checked out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.render.envelope import MergeConflicts, RenderFailed
from actors.repositories.fetching.remote import GitError
from storage import immutable

if TYPE_CHECKING:
    from actors.repositories.fetching.mirror import Mirror

_CLEAN, _CONFLICTS = 0, 1
_NAMED = 3
_UNRELATED = "unrelated histories"
"""Part of git's message for commits without a common one."""

_LONGEST_PATH = 200
_LAST_SECOND = 1 << 33
"""The latest date of a merge, in seconds: commits may claim any, and git takes not all."""

_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "ci-daemon", "EMAIL": "ci-daemon@localhost"}.items()
}


@immutable
class Merge:
    """A merge to make: of the commit ``head`` into ``branch``, whose commit is ``base``."""

    base: str
    branch: str
    head: str
    message: str

    def make(self, mirror: Mirror) -> str:
        """Write the merge commit into a mirror; return its name.

        Its parents are the base and the head, its date the later one of theirs. So the name is the same whenever and
        however often it is made. Raises MergeConflicts, GitError and CommitRefused.
        """
        options = ("--write-tree", "--name-only", "--no-messages", "-z")
        status, printed = mirror.git.answer(
            "merge-tree",
            *options,
            self.base,
            self.head,
            at=mirror.path,
            seconds=mirror.seconds,
            statuses=frozenset({_CLEAN, _CONFLICTS}),
            environment={},
        )
        if status == _CONFLICTS:
            raise MergeConflicts(conflict_of(self.branch, printed))
        tree = printed.decode().rstrip("\0")
        when = f"@{self._date(mirror)} +0000"
        dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        _, made = mirror.git.answer(
            "commit-tree",
            tree,
            *("-p", self.base, "-p", self.head, "-m", self.message),
            at=mirror.path,
            seconds=mirror.seconds,
            statuses=frozenset({_CLEAN}),
            environment={**_WHO, **dates},
        )
        return made.decode().strip()

    def _date(self, mirror: Mirror) -> int:
        options = ("--no-walk", "--no-show-signature", "--format=%ct", "--end-of-options")
        dates = mirror.run("log", *options, self.base, self.head).decode().split()
        return min(max(map(int, dates), default=0), _LAST_SECOND)


def conflict_of(branch: str, printed: bytes) -> str:
    """Return in words which files conflict, by what git printed: a tree and their paths, each with a NUL.

    A commit of few objects has a million of them. They are counted, and only the first become texts.
    """
    number = printed.count(b"\0") - 1
    _, *first = printed.split(b"\0", _NAMED + 1)[: 1 + min(number, _NAMED)]
    named = [quoted(each.decode(errors="replace")[:_LONGEST_PATH]) for each in first]
    more = number - len(named)
    files = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return f"conflicts with {branch} in {files}: merge {branch} into it, or rebase it, and push"


def merged(mirror: Mirror, base: str | None, branch: str, head: str, message: str) -> str:
    """Return the merge of a head into a branch, made in a mirror.

    Raises MergeConflicts, and RenderFailed if there is no such branch or git cannot merge.
    """
    if base is None:
        raise MergeConflicts(f"cannot be merged: there is no branch {quoted(branch)} any more")
    try:
        return Merge(base, branch, head, message).make(mirror)
    except GitError as error:
        if _UNRELATED in str(error):
            raise MergeConflicts(f"conflicts with {branch}: they have no commit in common") from error
        raise RenderFailed.exited("merge", 1, str(error)) from error
