"""Patterns: regular expressions that are compiled when they are first used, and globs over names.

A process uses few of the expressions in the modules that it imports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from typing import AnyStr

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class Deferred:
    """A regular expression that nobody has used yet."""

    def __init__(self, text: Any, flags: int) -> None:  # noqa: ANN401 - str or bytes
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        compiled = re.compile(self._text, self._flags)
        vars(self).update({each: getattr(compiled, each) for each in _METHODS})  # the next use does not come here
        return getattr(compiled, name)


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression of a module, which its first use compiles, and refuses if it is wrong."""
    return cast("re.Pattern[AnyStr]", Deferred(text, flags))


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
