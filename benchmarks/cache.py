"""A build whose jobs are in the cache, compared with the build that filled it."""

from __future__ import annotations

from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Benchmark, interleaved
from benchmarks.service import serving
from tests.e2e.pipelines import Graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_JOBS = 50
_ROUNDS = 3
_TIMEOUT_SECONDS = 120


def _measure(testbed: Testbed) -> Iterator[Figure]:
    with serving(testbed) as service:
        for label, cached in ((f"{_JOBS} of {_JOBS} jobs", _JOBS), (f"{_JOBS - 1} of {_JOBS} jobs", _JOBS - 1)):
            chain = _Chain(service, cached)
            chain.build_with_new_keys()
            yield interleaved(label, "ms", _ROUNDS, chain.build, chain.build_with_new_keys)


class _Chain:
    """A pipeline of jobs, each on the disk of the last; the first ``cached`` jobs have a cache key."""

    def __init__(self, service: Service, cached: int) -> None:
        self._service = service
        self._cached = cached
        self._versions = count()
        self._ir = ""

    def build_with_new_keys(self) -> float:
        """Build it with new keys; return the milliseconds that it took."""
        version = f"{self._cached}/{next(self._versions)}"
        graph = Graph()
        for number in range(_JOBS):
            cache = {"policy": "forever" if number < self._cached else "none", "key": f"{version}/{number}"}
            graph.step(str(number), "true", builds_in=str(number - 1) if number else None, cache=cache)
        self._ir = graph.ir()
        return self.build()

    def build(self) -> float:
        """Build it again with the same keys; return the milliseconds that it took."""
        started = perf_counter()
        self._service.finish(self._service.build(self._ir), _TIMEOUT_SECONDS)
        return (perf_counter() - started) * 1000


CACHE = Benchmark(
    name="cache",
    title="A build that finds jobs of `true`, each on the disk of the last, in the cache: from the request to its end",
    baseline="the first build of the same pipeline, whose jobs all run, and leave their disks to the cache.",
    measure=_measure,
)
