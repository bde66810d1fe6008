"""Links among a job's files, and the files that globs reach through them. Pure.

A link to a file is kept under the link's name. A folder behind a link is searched as if it were there, unless all that
is found in it is kept under its own name anyway, so a pattern's ``**`` finds no file twice. Each folder is searched
once for each rest of the patterns that is still to match. So a circle of links ends, and the work grows with the number
of links, not of paths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.ir.triggers import Globs, Places

_WORKSPACE = "/workspace"
_MOST_HOPS = 40
"""As many links as Linux follows in one path."""

_MOST_CHARACTERS = 1 << 26
_MOST_STEPS = 500_000


class TooManyLinks(Exception):
    """There are more links than are followed."""


@immutable
class ReachedPath:
    """A path that a link leads to, under the name by which it is reached.

    ``places`` are what is left of the globs there. ``covered`` says that a folder's files are kept
    under names of their own.
    """

    name: str
    path: str
    places: Places
    covered: bool = False


@dataclass(slots=True)
class Reached:
    """The paths behind links, and the links that lead out of the workspace, or in a circle."""

    paths: list[ReachedPath] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    circles: list[str] = field(default_factory=list)


class Links:
    """The symbolic links of a workspace, by their paths in it."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}
        self._characters = 0

    def add(self, path: str, target: str) -> None:
        """Add a link. Raises TooManyLinks."""
        self._characters += len(path) + len(target)
        if self._characters > _MOST_CHARACTERS:
            raise TooManyLinks
        self._targets[path] = target

    def reached(self, globs: Globs) -> Reached:
        """Return what the globs reach through links. Raises TooManyLinks."""
        return _Search(self._targets, globs).run()


class _Search:
    def __init__(self, targets: Mapping[str, str], globs: Globs) -> None:
        self._targets = targets
        self._globs = globs
        self._links = sorted(targets)
        self._searched: dict[str, list[Places]] = {}
        self._found = Reached()

    def run(self) -> Reached:
        start = self._globs.start()
        waiting = deque((path, path, self._globs.after(start, path)) for path in self._links)
        steps = len(waiting)
        while waiting:
            name, link, places = waiting.popleft()
            if not places:
                continue
            for inner in self._follow(name, link, places):
                waiting.append(inner)
                steps += 1
                if steps > _MOST_STEPS:
                    raise TooManyLinks
        return self._found

    def _follow(self, name: str, link: str, places: Places) -> Iterator[tuple[str, str, Places]]:
        """Note where a link leads; yield the links in that folder, under the names by which they are reached."""
        try:
            path = self._real(link)
        except RecursionError:
            if self._globs.names(name):
                self._found.circles.append(name)
            return
        if path is None:
            if self._globs.names(name):
                self._found.outside.append(name)
            return
        if not path or f"{link}/".startswith(f"{path}/"):
            if self._globs.names(name):
                self._found.circles.append(name)
            return
        own = self._globs.after(self._globs.start(), path)
        searched = self._searched.setdefault(path, [own])
        covered = any(places <= each for each in searched)
        self._found.paths.append(ReachedPath(name, path, places, covered))
        if covered:
            return
        searched.append(places)
        below = f"{path}/"
        for inner in islice(self._links, bisect_left(self._links, below), None):
            if not inner.startswith(below):
                break
            rest = inner[len(below) :]
            yield f"{name}/{rest}", inner, self._globs.after(places, rest)

    def _real(self, link: str) -> str | None:
        """Return the path without links that a link leads to; None if it is not in the workspace.

        Raises RecursionError if it leads in a circle.
        """
        left, real, hops = link.split("/")[::-1], list[str](), 0
        while left:
            part = left.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                if not real:
                    return None
                real.pop()
                continue
            target = self._targets.get("/".join([*real, part]))
            if target is None:
                real.append(part)
                continue
            hops += 1
            if hops > _MOST_HOPS:
                raise RecursionError
            if target.startswith("/"):
                real.clear()
                if not f"{target}/".startswith(f"{_WORKSPACE}/"):
                    return None
                target = target.removeprefix(_WORKSPACE)
            left += target.split("/")[::-1]
        return "/".join(real)
