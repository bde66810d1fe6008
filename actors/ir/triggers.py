"""Triggers: the events for which a pipeline is built (pipeline-ir.md, "Triggers"). Pure.

Triggers come from the repository, so they may be anything that JSON can say; one that is malformed wants nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

_DEFAULT_TYPES = ("opened", "synchronize", "reopened")
_TYPES_OF = {"retargeted": {"synchronize", "edited"}, "open": set(_DEFAULT_TYPES)}
_SKIP_MARKS = ("[skip ci]", "[ci skip]")
_OF_OTHERS = ("* ", "    ")


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


def wants(triggers: Iterable[object], event: PushEvent | PullRequestEvent) -> bool:
    """Tell whether one of a pipeline's triggers wants an event."""
    return any(_one_wants(trigger, event) for trigger in triggers)


def skips_builds(message: str) -> bool:
    """Tell whether a commit's message says ``[skip ci]`` or ``[ci skip]``, in any case, anywhere.

    Squashes and merges list the messages of the commits that they bring, below their own: as points or indented. A mark
    there is about one of these commits, and must not keep all the others from being built.
    """
    subject, *body = message.casefold().splitlines() or [""]
    own = [subject, *(each for each in body if not each.startswith(_OF_OTHERS))]
    return any(mark in line for line in own for mark in _SKIP_MARKS)


def glob_matches(glob: str, name: str) -> bool:
    """Tell whether a glob matches a whole name. ``*`` is any characters, ``?`` is one, else literal.

    Takes at most as many steps as the product of the lengths, because globs come from strangers.
    """
    at = start = 0
    star: int | None = None
    position = 0
    while position < len(name):
        if at < len(glob) and glob[at] == "*":
            star, start = at, position
            at += 1
        elif at < len(glob) and glob[at] in ("?", name[position]):
            at += 1
            position += 1
        elif star is not None:
            start += 1
            at, position = star + 1, start
        else:
            return False
    return all(character == "*" for character in glob[at:])


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


def _any_matches(globs: object, name: str) -> bool:
    return isinstance(globs, list | tuple) and any(isinstance(each, str) and glob_matches(each, name) for each in globs)
