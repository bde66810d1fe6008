"""The shallow ``.git`` that is packed with a working tree, in which git works as in a build of a push."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actors.repositories import (
    LFS_CLEAN,
    Checkout,
    Git,
    GitError,
    Remote,
    RemoteInvalid,
    SourceSettings,
    make_history,
)
from ci_daemon.submit.packing import PackError
from ci_daemon.submit.revision import ask_git, git_revision
from ci_daemon.submit.working_tree import list_files

if TYPE_CHECKING:
    from collections.abc import Iterator

_ORIGIN = "refs/remotes/origin/"
_SECONDS = 300.0
_OF_CHECKOUT = ("core.autocrlf", "core.eol", "core.symlinks")
_MARKS = {"S": "--skip-worktree", "s": "--skip-worktree", "h": "--assume-unchanged"}
"""The marks of files by their tags in `git ls-files -v`."""

_AT_ONCE = 500
_MOST_BYTES = 2**30


@contextmanager
def git_folder(tree: Path) -> Iterator[Path]:
    """Make the ``.git`` of a tree at its commit, without hooks, settings and passwords. Raises PackError.

    It compares with the default branch as it was fetched from `origin` last, if it ever was.
    """
    top, source = ask_git(tree, "rev-parse", "--show-toplevel"), _source(tree)
    if top is None or source is None:
        raise PackError(f"{tree} is not in a git repository: leave --git out")
    if Path(top) != tree.resolve():
        raise PackError(f"{tree} is a folder of the git repository {top}: submit that, or leave --git out")
    commit = ask_git(tree, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit is None:
        raise PackError(f"{tree} has no commit yet: make one, or leave --git out")
    branch = ask_git(tree, "symbolic-ref", "--quiet", "HEAD")
    checkout = Checkout(branch, commit, _default_branch(tree), _origin_url(tree))
    with tempfile.TemporaryDirectory(prefix="ci-daemon-submit-") as temporary:
        folder = Path(temporary, "git")
        try:
            git = Git(Path(temporary), str(source), _MOST_BYTES, lambda: 0)
            make_history(git, source, folder, checkout, SourceSettings().depth, _SECONDS)
            _take_over(git, tree, folder)
        except GitError as error:
            raise PackError(f"the .git of {tree} cannot be packed: {error}") from error
        yield folder


def _take_over(git: Git, tree: Path, folder: Path) -> None:
    """Copy what git needs to find no change where it finds none in the tree. Raises GitError.

    These are settings and attributes of the checkout, and the marks of files that are not checked out, or whose changes
    git overlooks.
    """
    for name in _OF_CHECKOUT:
        if (value := ask_git(tree, "config", "--get", name)) is not None:
            git.copy("config", name, value, at=folder, seconds=_SECONDS)
    if ask_git(tree, "config", "--get", "filter.lfs.clean") is not None:
        git.copy("config", "filter.lfs.clean", LFS_CLEAN, at=folder, seconds=_SECONDS)
    attributes = ask_git(tree, "rev-parse", "--path-format=absolute", "--git-path", "info/attributes")
    if attributes is not None and (found := Path(attributes)).is_file():
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_bytes(found.read_bytes())
    listed = [each.split(" ", 1) for each in list_files(tree, "-v") or []]
    marked = {path: _MARKS[tag] for tag, path in listed if tag in _MARKS}
    if not marked:
        return
    known = set(list_files(folder, "--full-name") or [])
    for mark in set(_MARKS.values()):
        paths = [path for path, its in marked.items() if its == mark and path in known]
        for start in range(0, len(paths), _AT_ONCE):
            batch = paths[start : start + _AT_ONCE]
            git.copy("--git-dir=.", "update-index", mark, "--", *batch, at=folder, seconds=_SECONDS)


def _source(tree: Path) -> Path | None:
    """Return the folder of a repository's objects, which all its working trees share."""
    found = ask_git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir")
    return Path(found) if found else None


def _default_branch(tree: Path) -> dict[str, str]:
    """Return name and commit of the default branch of `origin`; of none if that was never fetched."""
    named = ask_git(tree, "symbolic-ref", "--quiet", f"{_ORIGIN}HEAD")
    for ref in [named] if named else [f"{_ORIGIN}main", f"{_ORIGIN}master"]:
        commit = ask_git(tree, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        if commit is not None:
            return {ref.removeprefix(_ORIGIN): commit}
    return {}


def _origin_url(tree: Path) -> str | None:
    """Return the URL of `origin`, if it is one without a password."""
    try:
        remote = Remote.parse(git_revision(tree).repository)
    except RemoteInvalid:
        return None
    return None if remote.protocol == "file" else remote.url
