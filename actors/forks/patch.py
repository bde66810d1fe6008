"""Unified diffs, as `git diff` writes them, applied to files in memory. Pure, and linear.

A hunk has to fit exactly, at its line or near it. Paths begin with ``a/`` and ``b/``, or with neither.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from storage import immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_FILES = 500
_MOST_PATH_BYTES = 4_096
_DRIFT = 100
"""Lines by which a hunk may have moved. It bounds the comparisons for each line of a patch."""

_HUNK = pattern(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@.*", re.DOTALL)
_NOWHERE = "/dev/null"
_EXECUTABLE = "new file mode 100755", "new mode 100755"
_NOT_EXECUTABLE = "new mode 100644"


class PatchRefused(Exception):
    """A patch that cannot be read, or does not fit the files; the message says where."""


@immutable
class Hunk:
    """Lines that follow each other, from the ``start`` of the old file, counted from 0."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@immutable
class FilePatch:
    """The changes of one file; ``old`` is None for a new file, ``new`` for one that is removed.

    ``executable`` is None if the patch does not say it.
    """

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    executable: bool | None = None


@immutable
class PatchedFile:
    """A file as a patch leaves it."""

    content: bytes
    executable: bool


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Return the changes of a patch. Raises PatchRefused, also for one without changes."""
    files = tuple(_Reader(text).files())
    if not files:
        raise PatchRefused("the patch has no changes: expected a unified diff, as `git diff` writes it")
    if len(files) > MOST_FILES:
        raise PatchRefused(f"the patch changes more than {MOST_FILES} files")
    return files


def needed_files(files: tuple[FilePatch, ...]) -> tuple[str, ...]:
    """Return the paths of the files that a patch changes or removes."""
    return tuple(dict.fromkeys(each.old for each in files if each.old is not None))


def apply_patch(files: tuple[FilePatch, ...], found: Mapping[str, PatchedFile]) -> dict[str, PatchedFile | None]:
    """Return each changed file by its path, None for those that are removed. Raises PatchRefused."""
    changed: dict[str, PatchedFile | None] = {}
    for each in files:
        before = None if each.old is None else changed.get(each.old, found.get(each.old))
        if each.old is not None and before is None:
            raise PatchRefused(f"{each.old}: there is no such file in the workspace")
        after = _patched(each, before)
        if each.old is not None and each.old != each.new:
            changed[each.old] = None
        if each.new is not None:
            changed[each.new] = after
    return changed


def _patched(change: FilePatch, before: PatchedFile | None) -> PatchedFile:
    executable = change.executable
    if executable is None:
        executable = before is not None and before.executable
    lines = [] if before is None else _lines(before.content.decode("utf-8", "surrogateescape"))
    written: list[str] = []
    done = moved = 0
    for hunk in change.hunks:
        at = _place(lines, hunk, hunk.start + moved, done)
        if at is None:
            raise PatchRefused(f"{change.old or change.new}: the hunk at line {hunk.start + 1} does not fit the file")
        written += lines[done:at]
        written += hunk.new
        done, moved = at + len(hunk.old), at - hunk.start
    written += lines[done:]
    return PatchedFile("".join(written).encode("utf-8", "surrogateescape"), executable)


def _place(lines: list[str], hunk: Hunk, wanted: int, least: int) -> int | None:
    """Return where a hunk fits, the nearest place first; None if it fits nowhere near."""
    old = list(hunk.old)
    for step in range(_DRIFT + 1):
        for at in {wanted + step, wanted - step}:
            if at >= least and lines[at : at + len(old)] == old:
                return at
        if not old:
            return None if wanted < least else min(wanted, len(lines))
    return None


def _lines(text: str) -> list[str]:
    """Return the lines with their ends; `str.splitlines` splits at more than line feeds."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


class _Reader:
    """Reads a patch line by line."""

    def __init__(self, text: str) -> None:
        self._lines = _lines(text)
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        """Yield the changes of each file. Raises PatchRefused."""
        executable: bool | None = None
        renamed: list[str] = []
        while (line := self._next()) is not None:
            line = line.rstrip("\r\n")
            if line.startswith("diff --git "):
                if renamed:
                    yield self._renamed(renamed)
                executable, renamed = None, []
            elif line.startswith(_EXECUTABLE):
                executable = True
            elif line.startswith(_NOT_EXECUTABLE):
                executable = False
            elif line.startswith(("rename from ", "rename to ")):
                renamed.append(_checked(line.split(" ", 2)[2]))
            elif line.startswith(("Binary files ", "GIT binary patch")):
                raise self._refused("binary files cannot be patched")
            elif line.startswith("--- "):
                yield self._file(line, executable=executable)
                executable, renamed = None, []
        if renamed:
            yield self._renamed(renamed)

    def _renamed(self, names: list[str]) -> FilePatch:
        if len(names) != len(("from", "to")):
            raise self._refused("expected both names of a file that is renamed")
        return FilePatch(names[0], names[1], ())

    def _file(self, header: str, *, executable: bool | None) -> FilePatch:
        second = (self._next() or "").rstrip("\r\n")
        if not second.startswith("+++ "):
            raise self._refused("expected a line that begins with +++")
        old, new = _path(header), _path(second)
        if old is None and new is None:
            raise self._refused("expected the name of a file")
        if {old and old[:2], new and new[:2]} <= {"a/", "b/", None}:
            old, new = old and old[2:], new and new[2:]
        hunks = tuple(self._hunks())
        return FilePatch(old and _checked(old), new and _checked(new), hunks, executable)

    def _hunks(self) -> Iterator[Hunk]:
        while self._at < len(self._lines) and (found := _HUNK.fullmatch(self._lines[self._at])):
            self._at += 1
            first, old_count, new_count = (1 if each is None else int(each) for each in found.groups())
            old: list[str] = []
            new: list[str] = []
            while len(old) < old_count or len(new) < new_count:
                self._line_of(old, new)
            yield Hunk(max(0, first - 1 if old_count else first), tuple(old), tuple(new))

    def _line_of(self, old: list[str], new: list[str]) -> None:
        line = self._next()
        if line is None:
            raise self._refused("the patch ends in the middle of a hunk")
        kind, rest = line[:1], line[1:]
        if kind in {"\n", ""}:  # an empty line whose space an editor removed
            kind, rest = " ", line
        if kind not in {" ", "-", "+"}:
            raise self._refused("expected a line of a hunk, which begins with a space, - or +")
        end = rest if rest.endswith("\n") else f"{rest}\n"
        if kind != "+":
            old.append(end)
        if kind != "-":
            new.append(end)
        if self._peek().startswith("\\"):
            if kind != "+":
                old[-1] = old[-1][:-1]
            if kind != "-":
                new[-1] = new[-1][:-1]
            self._at += 1

    def _peek(self) -> str:
        return self._lines[self._at] if self._at < len(self._lines) else ""

    def _next(self) -> str | None:
        if self._at >= len(self._lines):
            return None
        self._at += 1
        return self._lines[self._at - 1]

    def _refused(self, why: str) -> PatchRefused:
        return PatchRefused(f"line {self._at} of the patch: {why}")


def _path(header: str) -> str | None:
    """Return the path of a header, without a time after it; None if it is of no file."""
    name = header[4:].partition("\t")[0].rstrip()
    return None if name == _NOWHERE else name


def _checked(path: str) -> str:
    """Return a path that stays in the workspace. Raises PatchRefused."""
    parts = path.split("/")
    inside = path and not path.startswith(("/", '"')) and not {"", ".", ".."} & set(parts) and path.isprintable()
    if not inside or posixpath.normpath(path) != path or len(path.encode()) > _MOST_PATH_BYTES:
        raise PatchRefused(f"expected a path in the workspace, not {path[:200]!r}")
    return path
