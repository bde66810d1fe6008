"""The shallow ``.git`` of a source, in which `git describe` and `git diff` work, and bounded archives."""

from __future__ import annotations

import io
import tarfile
from dataclasses import field
from typing import TYPE_CHECKING

from actors.repositories.fetching.remote import GitError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typing_extensions import Buffer

    from actors.repositories.fetching.git import Git

_HEADS = "refs/heads/"
_MOST_DEPTH = 2_000

LFS_CLEAN = (
    "f=$(mktemp) && v='version https://git-lfs.github.com/spec/v1' && cat >$f && {"
    ' test ! -s $f || { test $(wc -c <$f) -le 1024 && grep -qx "$v" $f && cat $f; } ||'
    " printf '%s\\noid sha256:%s\\nsize %s\\n' \"$v\" $(sha256sum <$f | cut -c -64) $(wc -c <$f); } && rm $f"
)
"""A command that prints the pointer to a file; a pointer stays as it is.

With it `git status` finds no change in a VM without git-lfs.
"""


class LimitedBuffer(io.BytesIO):
    """A buffer whose writes beyond a limit raise the given refusal."""

    def __init__(self, limit: int, refusal: Exception) -> None:
        super().__init__()
        self._limit = limit
        self._refusal = refusal

    def write(self, chunk: Buffer, /) -> int:
        """Write unless the limit is passed."""
        if self.tell() > self._limit:
            raise self._refusal
        return super().write(chunk)


@immutable
class Checkout:
    """The state of a source's repository.

    It is on ``ref`` if that is a branch, else on none. ``branches`` are those of ``origin`` to compare with, by name,
    the default branch first; ``url`` is the one of ``origin``, if others than this host may know it. The branch does
    not belong to ``origin``, whatever its name, if it is ``of_fork``.
    """

    ref: str | None
    commit: str
    branches: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    of_fork: bool = False


def make_history(git: Git, source: Path, folder: Path, checkout: Checkout, depth: int, seconds: float) -> None:
    """Make a shallow repository of a commit, with an index but without files. Raises GitError.

    It has the last ``depth`` commits with their tags, and more if the merge base with one of the branches is farther,
    up to 2,000.
    """

    def run(*arguments: str) -> None:
        git.copy(*arguments, at=folder, seconds=seconds)

    tips = checkout.branches.values()
    depth = max([depth, *(_distance(git, source, checkout.commit, each, seconds) for each in tips)])
    branch = checkout.ref.removeprefix(_HEADS) if checkout.ref and checkout.ref.startswith(_HEADS) else None
    wanted = {f"refs/remotes/origin/{name}": commit for name, commit in checkout.branches.items()}
    if branch and not checkout.of_fork and not any(_clash(branch, other) for other in checkout.branches):
        wanted[f"refs/remotes/origin/{branch}"] = checkout.commit
    wanted[f"{_HEADS}{branch}" if branch else "refs/ci/commit"] = checkout.commit
    folder.mkdir()
    head = (f"--initial-branch={branch}",) if branch else ()
    run("init", "--quiet", "--bare", "--template=", *head, str(folder))
    refs = (f"{commit}:{name}" for name, commit in wanted.items())
    run("fetch", "--quiet", f"--depth={depth}", "--no-write-fetch-head", "--", str(source), *refs)
    if not branch:
        run("update-ref", "--no-deref", "HEAD", checkout.commit)
    run("read-tree", checkout.commit)
    run("pack-refs", "--all")
    for default in list(checkout.branches)[:1]:
        run("symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{default}")
    if checkout.url:
        run("config", "remote.origin.url", checkout.url)
        run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    run("config", "core.bare", "false")


def add_history(tar: tarfile.TarFile, folder: Path, prefix: str = "") -> None:
    """Add a repository to an archive as the ``.git`` below a prefix, always the same."""
    for path in sorted(folder.rglob("*")):
        info = tarfile.TarInfo(f"{prefix}.git/{path.relative_to(folder).as_posix()}")
        if path.is_dir():
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        else:
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                tar.addfile(info, file)


def _clash(one: str, other: str) -> bool:
    """Tell whether git cannot keep both branches, because one is the other's folder, or they are the same.

    One repository can have both only at different times.
    """
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _distance(git: Git, source: Path, commit: str, tip: str, seconds: float) -> int:
    """Return the depth of the merge base of two commits; 0 if there is none, or too far away."""
    if commit == tip:
        return 1
    try:
        base = git.run("merge-base", commit, tip, at=source, seconds=seconds).decode().strip()
    except GitError:
        return 0
    counts = []
    for each in (commit, tip):
        counting = ("rev-list", "--count", f"--max-count={_MOST_DEPTH}", f"{base}..{each}")
        counts.append(int(git.run(*counting, at=source, seconds=seconds)) + 1)
    return max(counts) if max(counts) <= _MOST_DEPTH else 0
