"""Jobs of either system on their way to steps: what they wait for, their matrix, their shell. Pure."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import field
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ci_daemon.convert.located import Located
    from ci_daemon.draft import DraftStep

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
    | {"CI_BRANCH", "CI_COMMIT", "CI_TAG", "CI_PULL_REQUEST", "CI_TARGET_BRANCH", "CI_CPUS", "CI_MEMORY_MB"}
)
"""Variables that the service sets, whatever a pipeline says; and ``CI``, which is true."""

_MAX_LABEL = 200


@immutable
class Job:
    """The steps of one job, one for each cell of its matrix, and the jobs that it needs."""

    name: str
    steps: tuple[DraftStep, ...]
    needs: tuple[str, ...] = field(default=())


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


def _level_of(jobs: Sequence[Job]) -> dict[str, int]:
    needs = {job.name: job.needs for job in jobs}
    level: dict[str, int] = {}
    for name in in_order(needs):
        level[name] = max((level[each] + 1 for each in needs[name]), default=0)
    return level


def levels(jobs: Sequence[Job]) -> tuple[tuple[DraftStep, ...], ...]:
    """Return stages in which every job comes after those that it needs, none of which is in a circle."""
    level = _level_of(jobs)
    count = max(level.values(), default=-1) + 1
    stages = (tuple(s for job in jobs if level.get(job.name) == number for s in job.steps) for number in range(count))
    return tuple(stage for stage in stages if stage)


def waits_in_vain(jobs: Sequence[Job]) -> dict[str, tuple[str, ...]]:
    """Return, for each job, the names of others that may stop it without being needed.

    They are in a stage before its own, and their failure fails the build.
    """
    level = _level_of(jobs)
    needs: dict[str, set[str]] = {}
    for job in sorted(jobs, key=lambda job: level[job.name]):
        closure: set[str] = set()
        for each in sorted(job.needs, key=lambda name: -level[name]):
            if each not in closure:
                closure |= {each, *needs[each]}
        needs[job.name] = closure
    found = {
        job.name: tuple(
            other.name
            for other in jobs
            if level[other.name] < level[job.name]
            and other.name not in needs[job.name]
            and any(step.runner_args.get("soft_fail") is not True for step in other.steps)
        )
        for job in jobs
    }
    return {name: others for name, others in found.items() if others}


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
