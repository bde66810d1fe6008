"""Jobs of all systems: what they wait for, their matrix, their names, words of the shell. Pure."""

from __future__ import annotations

import itertools
import math
import re
from typing import TYPE_CHECKING

from actors.ir.systems.omissions import LeftOut

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from actors.ir.systems.located import Located

MAX_CELLS = 256
"""The most cells of a matrix; GitHub's own limit."""

SET_HERE = frozenset(
    {
        "CI_ORG",
        "CI_PIPELINE",
        "CI_BUILD_NUMBER",
        "CI_BUILD_ID",
        "CI_BUILD_URL",
        "CI_JOB_ID",
        "CI_STEP_KEY",
        "CI_ATTEMPT",
    }
    | {"CI_BRANCH", "CI_COMMIT", "CI_TAG", "CI_PULL_REQUEST", "CI_TARGET_BRANCH", "CI_EVENT", "CI_CPUS", "CI_MEMORY_MB"}
)
"""Variables that the service sets, whatever a pipeline says; and ``CI``, which is true."""

MAY_PIPE = re.compile(r"\||\beval\b|\bsource\b|(^|[\s;&(])\.\s", re.MULTILINE)
"""A pipe in a script, or what may read a script that has one."""

NAME_IN_TEXT = re.compile(r"\$\{\{[^{}]*\}\}")
"""A name of the language in a text."""

_MAX_LABEL = 200
_MAX_SLUG = 63


def event_word(tag: str, manual: str, pull_request: str) -> str:
    """Return the event of a build as a word of the shell, in another system's words."""
    cases = f"tag) echo {tag} ;; manual) echo {manual} ;; pull_request) echo {pull_request} ;;"
    return f'"$(case "$CI_EVENT" in {cases} *) printf %s "$CI_EVENT" ;; esac)"'


def circular(needs: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return the jobs that need themselves through others, and those between two such circles."""
    forwards = {name: set(each) & set(needs) for name, each in needs.items()}
    backwards: dict[str, set[str]] = {name: set() for name in needs}
    for name, each in forwards.items():
        for needed in each:
            backwards[needed].add(name)
    return frozenset(set(needs) - set(in_order(forwards)) - set(in_order(backwards)))


def in_order(needs: Mapping[str, Collection[str]]) -> list[str]:
    """Return jobs, each after those that it needs.

    Jobs in circles, and all that need them, are not among them.
    """
    left = {name: len(set(each) & set(needs)) for name, each in needs.items()}
    needed_by: dict[str, list[str]] = {name: [] for name in needs}
    for name, each in needs.items():
        for needed in set(each) & set(needs):
            needed_by[needed].append(name)
    ordered = [name for name, count in left.items() if count == 0]
    for name in ordered:  # grows as it goes
        for other in needed_by[name]:
            left[other] -= 1
            if left[other] == 0:
                ordered.append(other)
    return ordered


def matrix(
    axes: Mapping[str, Located], printed: Callable[[Located], str | None], *, lists: bool
) -> Iterator[dict[str, str]] | None:
    """Yield the cells of a matrix: a value for each name, as ``printed`` prints it.

    None if a value is no scalar, if there are too many cells, or, with ``lists``, if an axis is no list.
    """
    if any(not isinstance(axis.value, tuple) for axis in axes.values()) and lists:
        return None
    values = [[printed(each) for each in axis.items()] for axis in axes.values()]
    if any(value is None for axis in values for value in axis) or not all(values):
        return None
    if math.prod(map(len, values)) > MAX_CELLS:
        return None
    return (dict(zip(axes, map(str, cell), strict=True)) for cell in itertools.product(*values))


def variables_in(text: str, is_theirs: Callable[[str], bool]) -> list[str]:
    """Return the variables of the other system that a script mentions, each once."""
    found = re.findall(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*)", text)
    return list(dict.fromkeys(filter(is_theirs, found)))


def label(text: str) -> str:
    """Return a name on one line, as the label of a step."""
    words = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return words if len(words) <= _MAX_LABEL else f"{words[: _MAX_LABEL - 1]}…"


def word(text: str) -> str:
    """Return a text as a word of the shell, always in quotes, as a name of a matrix needs them."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def unused(slug: str, taken: Collection[str]) -> str:
    """Return a slug that none of the others has."""
    numbered = (slug if number == 1 else f"{slug[: _MAX_SLUG - 5]}-{number}" for number in itertools.count(1))
    return next(each for each in numbered if each not in taken)


def duration(seconds: int) -> str:
    """Return a time in the largest unit that divides it."""
    for unit, name in ((3600, "h"), (60, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"


def check_names(at: Located, key: str, texts: Iterable[str]) -> None:
    """Raise LeftOut if a text has what the language would take for a name to replace."""
    if any("${{" in text for text in texts):
        raise LeftOut(at, key, "it has ${{ in a text, which stands for a name here")
