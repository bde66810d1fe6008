"""Builds of 100 jobs of `true`: the service's own cost per job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.by_hand import ByHand
from benchmarks.figures import Benchmark, by_turns
from benchmarks.place import first_command
from benchmarks.service import PARALLEL, serving
from tests.e2e.pipelines import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.by_hand import Sandbox
    from benchmarks.figures import Figure
    from benchmarks.place import Place
    from benchmarks.service import Service

__all__ = ["BUILDS"]

_JOBS = 100
_ROUNDS = 3
_MOST_SECONDS = 120


def _measure(place: Place) -> Iterator[Figure]:
    hand = ByHand(place)
    builds: dict[str, tuple[str, Callable[[ByHand], None]]] = {
        "chain, each job after the last": (_chain(on_disk=False), _one_by_one),
        "chain, each job on the disk of the last": (_chain(on_disk=True), _one_on_another),
        f"fan, {PARALLEL} jobs at a time": (_fan(), _at_once),
    }
    with serving(place) as service:
        for what, (ir, floor) in builds.items():
            sides = partial(_build, service, ir), partial(_loop, hand, floor)
            yield by_turns(what, "ms", _ROUNDS, *sides)


def _chain(*, on_disk: bool) -> str:
    graph = Graph().step("0", "true")
    for number in range(1, _JOBS):
        before = str(number - 1)
        if on_disk:
            graph.step(str(number), "true", builds_in=before)
        else:
            graph.step(str(number), "true", after=(before,))
    return graph.ir()


def _fan() -> str:
    graph = Graph()
    for number in range(_JOBS):
        graph.step(str(number), "true")
    return graph.ir()


def _build(service: Service, ir: str) -> float:
    """Run a build and return its milliseconds per job."""
    began = perf_counter()
    service.finish(service.build(ir), _MOST_SECONDS)
    return (perf_counter() - began) * 1000 / _JOBS


def _loop(hand: ByHand, jobs: Callable[[ByHand], None]) -> float:
    """Run the jobs by hand and return their milliseconds per job."""
    began = perf_counter()
    jobs(hand)
    return (perf_counter() - began) * 1000 / _JOBS


def _one_by_one(hand: ByHand) -> None:
    for _ in range(_JOBS):
        _job(hand)


def _one_on_another(hand: ByHand) -> None:
    done: list[Sandbox] = []
    for _ in range(_JOBS):
        with hand.sandbox(below=[each.name for each in reversed(done)], network=True) as sandbox:
            first_command(sandbox.endpoint, perf_counter())
        done.append(sandbox)
    for sandbox in done:
        hand.remove(sandbox)


def _at_once(hand: ByHand) -> None:
    with ThreadPoolExecutor(PARALLEL) as threads:
        for job in [threads.submit(_job, hand) for _ in range(_JOBS)]:
            job.result()


def _job(hand: ByHand) -> None:
    with hand.sandbox(network=True) as sandbox:
        first_command(sandbox.endpoint, perf_counter())
    hand.remove(sandbox)


BUILDS = Benchmark(
    name="builds",
    title="Builds of 100 jobs of `true`: time for each job, from the request over HTTP to the end of the build",
    floor=(
        "a loop over sandboxes by hand (benchmarks/by_hand.sh), as many at a time: each with a network and, in the "
        "second chain, on the disks of those before it, `true` over SSH in each, then ended and removed."
    ),
    measure=_measure,
)
