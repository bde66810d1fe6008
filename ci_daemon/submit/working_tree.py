"""The files of a working tree: those that git has or would add, and its empty folders.

git itself is asked where there is a repository, because it never ignores a file that it tracks, and knows of excluded
files that no ``.gitignore`` names. A tree without git keeps to its ``.gitignore`` files.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pathspec import GitIgnoreSpec

_GIT = ".git"
_SUBMODULE = "160000"
_EXECUTABLE = "100755"
_OF_A_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)
"""Variables that bind git to one repository, as in its hooks."""


@immutable
class TreeEntry:
    """A file, link or empty folder, by its path relative to the tree.

    ``executable`` is None if the file's own mode says it, which means nothing where git's core.fileMode is off.
    """

    path: str
    executable: bool | None = None


class WorkingTree:
    """The files, links and empty folders below a folder, without those that are ignored.

    In a repository, with git, these are tracked files and those that git would add, also of submodules and nested
    repositories. Else it is what the ``.gitignore`` files of the folder and its parents leave.
    """

    def __init__(self, top: Path) -> None:
        self._top = top

    def entries(self) -> Iterator[TreeEntry]:
        """Yield the entries, always in the same order. Raises OSError if a folder cannot be read."""
        repository = next((each for each in (self._top, *self._top.parents) if (each / _GIT).exists()), None)
        found = None if repository is None else _Repository(self._top).entries("")
        if found is not None:
            yield from sorted(found.values(), key=lambda entry: entry.path.split("/"))
            return
        rules = _IgnoreRules()
        if repository is not None and repository != self._top:
            for folder in reversed([each for each in self._top.parents if each.is_relative_to(repository)]):
                rules = rules.within(folder)
        yield from self._walk(self._top, rules)

    def _walk(self, folder: Path, above: _IgnoreRules) -> Iterator[TreeEntry]:
        rules = above.within(folder)
        found = _sorted(folder)
        if not found and folder != self._top:
            yield TreeEntry(folder.relative_to(self._top).as_posix())
        for entry in found:
            is_folder = entry.is_dir(follow_symlinks=False)
            path = folder / entry.name
            if entry.name == _GIT or rules.ignore(path, folder=is_folder):
                continue
            if is_folder:
                yield from self._walk(path, rules)
            else:
                yield TreeEntry(path.relative_to(self._top).as_posix())


class _Repository:
    """A folder of a repository, which git is asked about."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._linked: dict[str, bool] = {}

    def entries(self, prefix: str) -> dict[str, TreeEntry] | None:
        """Return the entries by path, with a prefix; None if git cannot tell."""
        answers = _ask_git(
            self._folder,
            ("ls-files", "-z", "--stage"),
            ("ls-files", "-z", "--others", "--exclude-standard"),
            ("ls-files", "-z", "--others", "--exclude-standard", "--directory"),
            ("config", "--type=bool", "--default=true", "core.fileMode"),
        )
        if answers is None:
            return None
        tracked, added, folders, modes = answers
        found: dict[str, TreeEntry] = {}
        for path, mode in _staged(tracked):
            if mode == _SUBMODULE:
                found |= self._within(path, prefix)
            elif self._is_in_place(path):
                executable = mode == _EXECUTABLE if modes.strip() == b"false" else None
                found[prefix + path] = TreeEntry(prefix + path, executable)
        for path in _paths(added):
            if path.endswith("/"):
                found |= self._within(path[:-1], prefix)
            else:
                found[prefix + path] = TreeEntry(prefix + path)
        found = {path: entry for path, entry in found.items() if _GIT not in path.split("/")}
        full = {path[: at + 1] for path in found for at, letter in enumerate(path) if letter == "/"}
        for empty in self._empty([each for each in _paths(folders) if each.endswith("/")], prefix, full):
            found[prefix + empty] = TreeEntry(prefix + empty)
        return found

    def _is_in_place(self, path: str) -> bool:
        """Tell whether a path is there, and not behind a link that has taken the place of a folder."""
        folder = path.rpartition("/")[0]
        if folder not in self._linked:
            behind = bool(folder) and (not self._is_in_place(folder) or (self._folder / folder).is_symlink())
            self._linked[folder] = behind
        return not self._linked[folder] and os.path.lexists(self._folder / path)

    def _within(self, path: str, prefix: str) -> dict[str, TreeEntry]:
        """Return the entries of a submodule or another repository; an empty folder if it is not there."""
        folder = self._folder / path
        if folder.is_symlink() or not folder.is_dir():
            return {prefix + path: TreeEntry(prefix + path)} if os.path.lexists(folder) else {}
        found = _Repository(folder).entries(f"{prefix}{path}/") if (folder / _GIT).exists() else None
        return found or {prefix + path: TreeEntry(prefix + path)}

    def _empty(self, folders: list[str], prefix: str, full: set[str]) -> list[str]:
        """Return the empty folders in those that git does not track; ``full`` are those with files to pack."""
        empty = []
        left = [each.rstrip("/") for each in folders]
        while left:
            folder = left.pop()
            if (self._folder / folder / _GIT).exists():
                continue
            inside = _sorted(self._folder / folder)
            if not inside:
                empty.append(folder)
            elif f"{prefix}{folder}/" in full or all(each.is_dir(follow_symlinks=False) for each in inside):
                left += [f"{folder}/{each.name}" for each in inside if each.is_dir(follow_symlinks=False)]
        if not empty:
            return []
        ignored = _ask_git(self._folder, ("check-ignore", "-z", "--stdin"), data="\0".join([*empty, ""]))
        return empty if ignored is None else [each for each in empty if each not in set(_paths(ignored[0]))]


def list_files(tree: Path, *options: str) -> list[str] | None:
    """Return what `git ls-files` says of a tree with these options; None if git cannot tell."""
    answers = _ask_git(tree, ("ls-files", "-z", *options))
    return None if answers is None else list(_paths(answers[0]))


def _ask_git(folder: Path, *questions: tuple[str, ...], data: str | None = None) -> list[bytes] | None:
    """Return what git prints for each question, asked at the same time; None if it cannot tell.

    The tree may belong to another user, and no program that its settings name is run.
    """
    argv = ("git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(folder))
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    try:
        running = [
            subprocess.Popen(
                (*argv, *question),
                env=environment,
                stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for question in questions
        ]
    except OSError:  # there is no git
        return None
    answers = [each.communicate(None if data is None else os.fsencode(data))[0] for each in running]
    return None if any(each.returncode for each in running) else answers


def _staged(listing: bytes) -> Iterator[tuple[str, str]]:
    """Yield path and mode of each line of `git ls-files --stage`; a path in conflict comes once."""
    last = None
    for line in _paths(listing):
        about, _, path = line.partition("\t")
        if path != last:
            yield path, about.split(" ", 1)[0]
        last = path


def _paths(listing: bytes) -> Iterator[str]:
    return (os.fsdecode(each) for each in listing.split(b"\0") if each)


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


@immutable
class _IgnoreRules:
    """The ``.gitignore`` files that apply in a folder, outermost first, each with its own folder."""

    files: tuple[tuple[Path, GitIgnoreSpec], ...] = ()

    def within(self, folder: Path) -> _IgnoreRules:
        path = folder / ".gitignore"
        if not path.is_file():
            return self
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - a tree without such files needs none of its modules

        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        return _IgnoreRules((*self.files, (folder, GitIgnoreSpec.from_lines(lines))))

    def ignore(self, path: Path, *, folder: bool) -> bool:
        """Tell whether a path is ignored: the innermost file with a rule for it decides."""
        for base, spec in reversed(self.files):
            verdict = spec.check_file(path.relative_to(base).as_posix() + ("/" if folder else "")).include
            if verdict is not None:
                return verdict
        return False
