"""Jobs of either system on their way to steps, and their order. Pure."""

from __future__ import annotations

import itertools
import re
from dataclasses import field
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ci_daemon.convert.located import Located
    from ci_daemon.draft import DraftStep

__all__ = ["Job", "circular", "levels", "matrix", "variables_in"]


@immutable
class Job:
    """The steps of one job, one for each cell of its matrix, and the jobs that it needs."""

    name: str
    steps: tuple[DraftStep, ...]
    needs: tuple[str, ...] = field(default=())


def circular(needs: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return the jobs that need themselves through others, and those between two such circles."""
    left = {name: set(each) & set(needs) for name, each in needs.items()}
    while free := {name for name, each in left.items() if not each} | (set(left) - set().union(*left.values())):
        left = {name: each - free for name, each in left.items() if name not in free}
    return frozenset(left)


def levels(jobs: Sequence[Job]) -> tuple[tuple[DraftStep, ...], ...]:
    """Return stages in which every job comes after those that it needs, none of which is in a circle."""
    level: dict[str, int] = {}
    waiting = list(jobs)
    while ready := [job for job in waiting if all(each in level for each in job.needs)]:
        for job in ready:
            level[job.name] = max((level[each] + 1 for each in job.needs), default=0)
        waiting = [job for job in waiting if job.name not in level]
    count = max(level.values(), default=-1) + 1
    stages = (tuple(s for job in jobs if level.get(job.name) == number for s in job.steps) for number in range(count))
    return tuple(stage for stage in stages if stage)


def matrix(axes: Mapping[str, Located]) -> Iterator[dict[str, str]] | None:
    """Yield the cells of a matrix: a value for each name. None if a value is no scalar."""
    names = list(axes)
    values = [[each.scalar for each in axis.items()] for axis in axes.values()]
    if any(value is None for axis in values for value in axis):
        return None
    return (dict(zip(names, map(str, cell), strict=True)) for cell in itertools.product(*values))


def variables_in(text: str, is_theirs: Callable[[str], bool]) -> list[str]:
    """Return the variables of the other system that a script mentions, each once."""
    found = re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", text)
    return list(dict.fromkeys(filter(is_theirs, found)))
