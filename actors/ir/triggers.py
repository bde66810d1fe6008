"""Triggers: the events and changes for which a pipeline is built (pipeline-ir.md, "Triggers"). Pure.

Triggers come from the repository, so they may be anything that JSON can say; one that is malformed wants nothing.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, NamedTuple

from storage import glob_matches, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from actors.ir.planning import Plan


Places = frozenset[tuple[int, int]]
"""Progress after a part of a path: numbers of patterns, and of the segments read of them."""

_ANYWHERE = "**"
_NOT = "!"
_MOST_STEPS = 20_000_000
_CHARS_OF_STEP = 32
"""Characters that are compared in the time of a step from part to part."""

_PUSH, _PULL_REQUEST = "push", "pull_request"
_DEFAULT_TYPES = ("opened", "synchronize", "reopened")
PULL_REQUEST_TYPES = (*_DEFAULT_TYPES, "edited", "ready_for_review", "closed")
"""The types of changes of pull requests that a trigger may want."""

_TYPES_OF = {"retargeted": {"synchronize", "edited"}, "open": set(_DEFAULT_TYPES)}
_SKIP_MARKS = ("[skip ci]", "[ci skip]")
_OF_OTHERS = ("* ", "    ")

_INPUT = pattern(r"inputs\.([A-Za-z][A-Za-z0-9_-]{0,62})")
_OUTPUT = pattern(r"outputs\.([^\x00-\x1f]{1,255})\.([A-Za-z_][A-Za-z0-9_]{0,254})")
UPSTREAM_PATTERN = r"^(inputs\.[A-Za-z][A-Za-z0-9_-]{0,62}|outputs\..{1,255}\.[A-Za-z_][A-Za-z0-9_]{0,254})$"
"""The pattern of the text of a value, for schemas."""


class Globs:
    """Globs over paths relative to the workspace: ``*``, ``?`` and ``[…]`` in a segment, ``**`` across.

    A pattern that matches a folder matches everything below it. A leading dot in a name is not special. The time of a
    match grows at most with the product of the lengths of patterns and path.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [_Pattern(pattern) for pattern in patterns]

    def match(self, path: str) -> bool:
        """Tell whether any of the patterns matches a path."""
        segments = path.split("/")
        return any(pattern.match(segments) for pattern in self._patterns)

    def start(self) -> Places:
        """Return what is left before a path is read."""
        return frozenset((number, place) for number, each in enumerate(self._patterns) for place in each.start())

    def after(self, places: Places, path: str) -> Places:
        """Return what is left after a path relative to that of ``places``; nothing if none can match."""
        for segment in path.split("/"):
            places = frozenset(
                (number, after) for number, place in places for after in self._patterns[number].after(place, segment)
            )
        return places

    def matched(self, places: Places) -> set[int]:
        """Return the numbers of the patterns that have matched, or match a folder above."""
        return {number for number, place in places if self._patterns[number].ends_at(place)}

    def names(self, path: str) -> bool:
        """Tell whether a pattern names a path's last part itself, and not only by ``**`` or a folder above."""
        folder, _, name = path.rpartition("/")
        places = self.after(self.start(), folder) if folder else self.start()
        return any(self._patterns[number].reads(place, name) for number, place in places)


class _Pattern:
    """One pattern as an automaton with a set of states, because ``**`` matches any number of segments."""

    def __init__(self, pattern: str) -> None:
        segments = [segment for segment in pattern.split("/") if segment not in {"", "."}] or ["*"]
        segments = [
            each for each, before in zip(segments, ["", *segments], strict=False) if {each, before} != {_ANYWHERE}
        ]
        if segments[-1] == _ANYWHERE:  # everything below a match matches anyway, and the folder itself is no file
            segments[-1] = "*"
        self._segments = [None if segment == _ANYWHERE else _segment(segment) for segment in segments]

    def match(self, path: Sequence[str]) -> bool:
        """Tell whether the pattern matches a path, or a folder above it."""
        places = self._from({0})
        for segment in path:
            places = self._from({place for at in places for place in self._past(at, segment)})
            if len(self._segments) in places:
                return True
        return False

    def start(self) -> set[int]:
        """Return the places before the first segment."""
        return self._from({0})

    def after(self, place: int, segment: str) -> set[int]:
        """Return the places after a segment; a match stays one."""
        return {place} if self.ends_at(place) else self._from(set(self._past(place, segment)))

    def ends_at(self, place: int) -> bool:
        """Tell whether a place is behind all segments."""
        return place == len(self._segments)

    def reads(self, place: int, segment: str) -> bool:
        """Tell whether a segment is matched at a place, and not passed over by ``**``."""
        return self.ends_at(place) or (place + 1 in self._past(place, segment))

    def _past(self, place: int, segment: str) -> tuple[int, ...]:
        """Return the places that follow ``place`` when it reads a segment of the path."""
        matches = self._segments[place]
        if matches is None:
            return (place,)
        return (place + 1,) if matches(segment) else ()

    def _from(self, places: set[int]) -> set[int]:
        """Add the places that come after a ``**``, which may match nothing; no two of them follow each other."""
        return places | {each + 1 for each in places if each < len(self._segments) and self._segments[each] is None}


def _segment(pattern: str) -> Callable[[str], object]:
    """Return a matcher of one name; the expressions of `translate` never backtrack past a ``*``."""
    return re.compile(translate(pattern)).match


def concerns(plan: Plan, changed: Collection[str] | None) -> bool:
    """Tell whether changed files concern a pipeline, by the ``paths`` of its steps.

    They do if a step's globs match one of them, or if no step has globs. ``changed`` is None if it is not known. With
    very many globs and files they do, because nobody should wait for the answer.
    """
    given = [job.paths for job in plan.jobs if job.paths is not None]
    if changed is None or not given or not can_be_matched((each for globs in given for each in globs), changed):
        return True
    return any(_match_one(globs, changed) for globs in given)


def can_be_matched(globs: Iterable[str], changed: Collection[str]) -> bool:
    """Tell whether globs and changed files are few enough to be matched in seconds.

    Each part of a glob may be compared with each part of a path; after a ``*`` it is, at each character of the path.
    """
    parts = [part for glob in globs for part in glob.split("/")]
    searched = sum(len(part) for part in parts if "*" in part and part != _ANYWHERE)
    steps = sum(1 + len(part) // _CHARS_OF_STEP for part in parts) * sum(path.count("/") + 1 for path in changed)
    return steps + searched * sum(map(len, changed)) // _CHARS_OF_STEP <= _MOST_STEPS


def _match_one(globs: Iterable[str], changed: Collection[str]) -> bool:
    """Tell whether the globs match a file. Those that begin with ``!`` exclude, alone from all files."""
    globs = tuple(globs)
    excluded = Globs(glob.removeprefix(_NOT) for glob in globs if glob.startswith(_NOT))
    included = [glob for glob in globs if not glob.startswith(_NOT)]
    matching = Globs(included or ("**",) * bool(globs))
    return any(matching.match(path) and not excluded.match(path) for path in changed)


@immutable
class PushEvent:
    """A push to a branch or a tag, by its name without ``refs/heads/`` or ``refs/tags/``."""

    name: str
    is_tag: bool = False

    def __str__(self) -> str:
        return f'the {"tag" if self.is_tag else "branch"} "{self.name}"'


@immutable
class PullRequestEvent:
    """A change of a pull request: its target branch, and the type of the change, such as ``opened``.

    One that is ``retargeted`` is new to its target, so a trigger for new commits wants it, as one for ``edited`` does.
    One that was ``open`` before it could be reported may be new in any way.
    """

    target: str
    type: str

    def __str__(self) -> str:
        return f'a pull request to "{self.target}" that is {self.type}'


def wants(
    triggers: Iterable[object], event: PushEvent | PullRequestEvent, changed: Collection[str] | None = None
) -> bool:
    """Tell whether a trigger of a pipeline wants an event and its changed files; None if not known."""
    return any(_one_wants(trigger, event) and _one_concerns(trigger, changed) for trigger in triggers)


def decides(triggers: Iterable[object], event: PushEvent | PullRequestEvent, own_branch: str | None = None) -> bool:
    """Tell whether a pipeline that an event does not build is skipped for its commit.

    Otherwise it is about other events, or another event of the commit decides: a push leaves the commit to pull
    requests if a trigger wants these, and a pull request of ``own_branch`` to the push of it if triggers want pushes
    alone.
    """
    triggers = tuple(triggers)
    kinds = {kind for each in triggers if (kind := _kind_of(each))}
    match event:
        case PushEvent():
            return not event.is_tag and kinds == {_PUSH}
        case PullRequestEvent():
            is_new = event.type in _TYPES_OF or event.type in _DEFAULT_TYPES
            by_push = kinds == {_PUSH} and own_branch is not None and wants(triggers, PushEvent(own_branch))
            return is_new and bool(kinds) and not by_push


def _kind_of(trigger: object) -> str | None:
    """Return the kind of event that a trigger is about: pushes to branches or pull requests; else None."""
    match trigger:
        case {"event": "push", **rest} if rest.get("branches") is not None or rest.get("tags") is None:
            return _PUSH
        case {"event": "pull_request"}:
            return _PULL_REQUEST
        case _:
            return None


def why_skipped(triggers: Iterable[object], event: PushEvent | PullRequestEvent) -> str:
    """Return why an event does not build a pipeline: its changed files, or the event itself."""
    if wants(triggers, event):
        return "none of the changed files is among the paths of its triggers"
    return f"it has no trigger for {event}"


def skips_builds(message: str) -> bool:
    """Tell whether a commit's message says ``[skip ci]`` or ``[ci skip]``, in any case, anywhere.

    Squashes and merges list the messages of the commits that they bring, below their own: as points or indented. A mark
    there is about one of these commits, and must not keep all the others from being built.
    """
    subject, *body = message.casefold().splitlines() or [""]
    own = [subject, *(each for each in body if not each.startswith(_OF_OTHERS))]
    return any(mark in line for line in own for mark in _SKIP_MARKS)


def _one_wants(trigger: object, event: PushEvent | PullRequestEvent) -> bool:
    match event, trigger:
        case PushEvent(name, is_tag), {"event": "push", **rest}:
            globs = rest.get("tags" if is_tag else "branches")
            if globs is None:
                return rest.get("branches" if is_tag else "tags") is None
            return _any_matches(globs, name)
        case PullRequestEvent(target, kind), {"event": "pull_request", **rest}:
            types, branches = rest.get("types", _DEFAULT_TYPES), rest.get("branches")
            kinds = _TYPES_OF.get(kind, {kind})
            wanted = isinstance(types, list | tuple) and any(each in types for each in kinds)
            return wanted and (branches is None or _any_matches(branches, target))
        case _:
            return False


def _one_concerns(trigger: object, changed: Collection[str] | None) -> bool:
    """Tell whether changed files are among the ``paths`` of a trigger; with very many of both they are."""
    match trigger:
        case {"paths": list(paths) | tuple(paths)} if changed is not None:
            return concerned_by([each for each in paths if isinstance(each, str)], changed)
        case _:
            return True


def concerned_by(globs: Collection[str], changed: Collection[str] | None) -> bool:
    """Tell whether globs match a changed file; with very many of both, or where it is not known, they do."""
    return changed is None or not can_be_matched(globs, changed) or _match_one(globs, changed)


def _any_matches(globs: object, name: str) -> bool:
    return isinstance(globs, list | tuple) and any(isinstance(each, str) and glob_matches(each, name) for each in globs)


class UpstreamValue(NamedTuple):
    """A value for a build that follows another: an input of the other one, or an output of its ``job``."""

    name: str
    job: str | None = None

    @classmethod
    def of(cls, text: str) -> UpstreamValue | None:
        """Return the value that a text names, as in ``outputs.package.VERSION``; None if it names none.

        A job's key may have dots, the name of an output has none.
        """
        if (found := _INPUT.fullmatch(text)) is not None:
            return cls(found[1])
        found = _OUTPUT.fullmatch(text)
        return None if found is None else cls(found[2], found[1])
