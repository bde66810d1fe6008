"""The branch, commit and repository of a tree, according to git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from storage import immutable

if TYPE_CHECKING:
    from pathlib import Path

_NO_COMMIT = "0" * 40


@immutable
class GitRevision:
    """A tree's branch, commit, first line of the commit's message, and address of the repository.

    A tree without git is on ``main``, at git's own null commit, in a repository named like its folder.
    """

    branch: str
    commit: str
    message: str | None
    repository: str


def git_revision(tree: Path) -> GitRevision:
    """Ask git about a tree; anything it does not know has a default. Never raises."""
    branch = ask_git(tree, "symbolic-ref", "--quiet", "--short", "HEAD")
    commit = ask_git(tree, "rev-parse", "--verify", "--quiet", "HEAD")
    message = ask_git(tree, "log", "-1", "--format=%s") if commit else None
    remote = ask_git(tree, "remote", "get-url", "origin")
    return GitRevision(
        branch or "main", commit or _NO_COMMIT, message, _without_secret(remote) if remote else tree.resolve().name
    )


def ask_git(tree: Path, *arguments: str) -> str | None:
    """Return what git prints about a tree; None if it fails or prints nothing."""
    try:
        done = subprocess.run(["git", "-C", str(tree), *arguments], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() or None if done.returncode == 0 else None


def _without_secret(remote: str) -> str:
    """Remove user and password from a URL: a clone URL may contain a token."""
    parts = urlsplit(remote)
    if parts.scheme not in {"http", "https"}:
        return remote
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
