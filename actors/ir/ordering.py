"""Topological order of jobs, and the error that names a cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

from actors.ir.errors import IrError, quoted
from actors.ir.readers import InvalidValue
from storage import BuildErrorCode, Dependency

__all__ = ["Dependencies", "report_cycle_first", "topological"]

Dependencies = Sequence[tuple[Dependency, ...]]

_MAX_CYCLE_KEYS = 10


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
    sorter = TopologicalSorter(
        {index: [each.position for each in prerequisites] for index, prerequisites in enumerate(depends_on)}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle(keys, min(error.args[1]), depends_on) from None
    ready = list(sorter.get_ready())
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for index in sorter.get_ready():
            heappush(ready, index)
    return order


@contextmanager
def report_cycle_first(keys: Sequence[object], depends_on: Callable[[], Dependencies]) -> Iterator[None]:
    """When reading fails, report a cycle among the dependencies read so far instead, if there is one.

    ``depends_on`` returns those dependencies. So the first fault in document order is reported (pipeline-ir.md,
    "Validation").
    """
    try:
        yield
    except (InvalidValue, IrError):
        topological(keys, depends_on())
        raise


def _cycle(keys: Sequence[object], start: int, depends_on: Dependencies) -> IrError:
    """Return the error that names the shortest cycle through ``start``, each job before its dependent."""
    dependents: list[list[int]] = [[] for _ in depends_on]
    for index, prerequisites in enumerate(depends_on):
        for dependency in prerequisites:
            dependents[dependency.position].append(index)
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
    names = [quoted(keys[index]) for index in reversed(cycle)]
    if len(names) > _MAX_CYCLE_KEYS:
        names[_MAX_CYCLE_KEYS - 1 : -1] = [f"({len(names) - _MAX_CYCLE_KEYS} more)"]
    return IrError(BuildErrorCode.CYCLE, f"dependency cycle through {' -> '.join(names)}")
