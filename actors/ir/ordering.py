"""The jobs of a pipeline, and their order: each after those that it depends on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from actors.ir.decoding import IrError, quoted
from actors.ir.readers import Faults, InvalidValue, Reader
from storage import BuildErrorCode, Dependency, immutable

if TYPE_CHECKING:
    from actors.ir.unknown_keys import UnknownKey
    from storage import NewJob

Dependencies = Sequence[tuple[Dependency, ...]]

_MAX_CYCLE_KEYS = 10


@immutable
class Definition:
    """A valid pipeline in document order. Dependencies may still point forwards or form cycles.

    ``unknown_keys`` are those of its document that have no effect.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
    unknown_keys: tuple[UnknownKey, ...] = field(default=(), compare=False)


@immutable
class Plan:
    """A pipeline in DAG creation order: each job depends on earlier ones only (pipeline-ir.md, "Plan").

    A job that builds in another has that job's image, because its disk is based on it.
    """

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None = None
    unknown_keys: tuple[UnknownKey, ...] = field(default=(), compare=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each of them."""
        return tuple(map(str, self.unknown_keys))


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


def dependent_items(
    reader: Reader[None], keys: Sequence[object], dependencies: Callable[[], Dependencies]
) -> Reader[None]:
    """Return a reader of lists whose items ``reader`` reads, and which say what depends on what.

    ``dependencies`` returns those that were read so far. A cycle among them is a fault, too: before that of the first
    faulty item if earlier items close it, otherwise the last one (pipeline-ir.md, "Validation").
    """

    def read(value: object) -> None:
        if not isinstance(value, list):
            raise InvalidValue("a list")
        faults, cycle = Faults(), None
        for index, item in enumerate(value):
            try:
                reader(item)
            except InvalidValue as fault:
                if not faults and (cycle := _cycle_among(keys, dependencies())) is not None:
                    faults.add(cycle)
                faults.add(fault.below(index))
        if cycle is None and (cycle := _cycle_among(keys, dependencies())) is not None:
            faults.add(cycle)
        faults.check()

    return read


def _cycle_among(keys: Sequence[object], depends_on: Dependencies) -> InvalidValue | None:
    try:
        topological(keys, depends_on)
    except IrError as error:
        return InvalidValue(error.message, error.code)
    return None


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
