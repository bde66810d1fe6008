"""Topological order of jobs, and the error that names a cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush

from actors.ir.definition import Dependency
from actors.ir.errors import IrError, shown
from actors.ir.reading import Misfit

__all__ = ["Dependencies", "cycles_first", "topological"]

Dependencies = Sequence[tuple[Dependency, ...]]

_SHOWN_KEYS = 10


def topological(keys: Sequence[object], depends_on: Dependencies) -> list[int]:
    """Return the jobs' indexes in topological order; of the jobs that are ready, the lowest comes first.

    Args:
        keys: the jobs' keys, for the message.
        depends_on: each job's dependencies, sorted by position.

    Raises:
        IrError: ``cycle``.
    """
    if all(not prerequisites or prerequisites[-1].position < index for index, prerequisites in enumerate(depends_on)):
        return list(range(len(depends_on)))
    waiting = [len(prerequisites) for prerequisites in depends_on]
    dependents: list[list[int]] = [[] for _ in depends_on]
    for index, prerequisites in enumerate(depends_on):
        for dependency in prerequisites:
            dependents[dependency.position].append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for dependent in dependents[index]:
            waiting[dependent] -= 1
            if not waiting[dependent]:
                heappush(ready, dependent)
    if len(order) < len(depends_on):
        raise _cycle(keys, _on_a_cycle(depends_on, waiting), dependents)
    return order


@contextmanager
def cycles_first(keys: Sequence[object], depends_on: Callable[[], Dependencies]) -> Iterator[None]:
    """When reading fails, report a cycle among the dependencies read so far instead, if there is one.

    ``depends_on`` returns those dependencies. So the first fault in document order is reported (pipeline-ir.md,
    "Validation").
    """
    try:
        yield
    except (Misfit, IrError):
        topological(keys, depends_on())
        raise


def _on_a_cycle(depends_on: Dependencies, waiting: Sequence[int]) -> int:
    """Return the lowest index on a cycle.

    Walks from prerequisite to prerequisite among the jobs that still wait, which must end in a cycle.
    """
    index = next(index for index, count in enumerate(waiting) if count)
    walked: dict[int, int] = {}
    while index not in walked:
        walked[index] = len(walked)
        index = next(dependency.position for dependency in depends_on[index] if waiting[dependency.position])
    return min(job for job, step in walked.items() if step >= walked[index])


def _cycle(keys: Sequence[object], start: int, dependents: Sequence[Sequence[int]]) -> IrError:
    """Return the error that names the shortest cycle through ``start``, each job before its dependent."""
    came_from: dict[int, int] = {}
    queue = deque([start])
    while start not in came_from:
        index = queue.popleft()
        for dependent in dependents[index]:
            if dependent not in came_from:
                came_from[dependent] = index
                queue.append(dependent)
    cycle = [start]
    while len(cycle) == 1 or cycle[-1] != start:
        cycle.append(came_from[cycle[-1]])
    names = [shown(keys[index]) for index in reversed(cycle)]
    if len(names) > _SHOWN_KEYS:
        names[_SHOWN_KEYS - 1 : -1] = [f"({len(names) - _SHOWN_KEYS} more)"]
    return IrError("cycle", f"dependency cycle through {' -> '.join(names)}")
