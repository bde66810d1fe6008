"""Builds of 100 jobs of `true`: the service's own cost per job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.baseline_vm import BaselineVms
from benchmarks.figures import Benchmark, interleaved
from benchmarks.peers import GitlabCiLocal, shell_loop
from benchmarks.service import PARALLEL, serving
from benchmarks.testbed import first_command
from tests.e2e.pipelines import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.baseline_vm import BaselineVm
    from benchmarks.figures import Figure
    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

JOBS = 100
_ROUNDS = 3
_TIMEOUT_SECONDS = 120


def _measure(testbed: Testbed) -> Iterator[Figure]:
    vms = BaselineVms(testbed)
    builds: dict[str, tuple[str, Callable[[BaselineVms], None]]] = {
        "chain, each job after the last": (chain(on_disk=False), _one_after_another),
        "chain, each job on the disk of the last": (chain(on_disk=True), _each_on_the_last_disk),
        f"fan, {PARALLEL} jobs at a time": (fan(), run_fan_by_hand),
    }
    with serving(testbed) as service:
        for label, (ir, baseline) in builds.items():
            sides = partial(_build, service, ir), partial(_loop, vms, baseline)
            yield interleaved(label, "ms", _ROUNDS, *sides)
        one_by_one, at_once = (partial(_build, service, ir) for ir in (chain(on_disk=False), fan()))
        yield interleaved("chain, beside a loop of `sh -c true`", "ms", _ROUNDS, one_by_one, partial(shell_loop, JOBS))
        if GitlabCiLocal.installed():
            peer = GitlabCiLocal(testbed.folder / "chain", JOBS, chain=True, at_once=1)
            yield interleaved("chain, beside gitlab-ci-local", "ms", _ROUNDS, one_by_one, peer.run)
            peer = GitlabCiLocal(testbed.folder / "fan", JOBS, chain=False, at_once=PARALLEL)
            yield interleaved("fan, beside gitlab-ci-local", "ms", _ROUNDS, at_once, peer.run)


def chain(*, on_disk: bool) -> str:
    """Return the IR of 100 jobs one after the other, each on its own disk or on that of the last."""
    graph = Graph().step("0", "true")
    for number in range(1, JOBS):
        before = str(number - 1)
        if on_disk:
            graph.step(str(number), "true", builds_in=before)
        else:
            graph.step(str(number), "true", after=(before,))
    return graph.ir()


def fan() -> str:
    """Return the IR of 100 jobs that wait for nothing."""
    graph = Graph()
    for number in range(JOBS):
        graph.step(str(number), "true")
    return graph.ir()


def _build(service: Service, ir: str) -> float:
    """Run a build and return its milliseconds per job."""
    started = perf_counter()
    service.finish(service.build(ir), _TIMEOUT_SECONDS)
    return (perf_counter() - started) * 1000 / JOBS


def _loop(vms: BaselineVms, jobs: Callable[[BaselineVms], None]) -> float:
    """Run the jobs without the service and return their milliseconds per job."""
    started = perf_counter()
    jobs(vms)
    return (perf_counter() - started) * 1000 / JOBS


def _one_after_another(vms: BaselineVms) -> None:
    for _ in range(JOBS):
        _job(vms)


def _each_on_the_last_disk(vms: BaselineVms) -> None:
    done: list[BaselineVm] = []
    for _ in range(JOBS):
        with vms.start(below=[each.name for each in reversed(done)], network=True) as vm:
            first_command(vm.endpoint, perf_counter())
        done.append(vm)
    for vm in done:
        vms.remove(vm)


def run_fan_by_hand(vms: BaselineVms) -> None:
    """Run the jobs of `fan` without the service."""
    with ThreadPoolExecutor(PARALLEL) as threads:
        for job in [threads.submit(_job, vms) for _ in range(JOBS)]:
            job.result()


def _job(vms: BaselineVms) -> None:
    with vms.start(network=True) as vm:
        first_command(vm.endpoint, perf_counter())
    vms.remove(vm)


BUILDS = Benchmark(
    name="builds",
    title="Builds of 100 jobs of `true`: time for each job, from the request over HTTP to the end of the build",
    baseline=(
        "a loop over sandboxes without the service (benchmarks/baseline_vm.sh), as many at a time: each with a "
        "network and, in the second chain, on the disks of those before it, `true` over SSH in each, then "
        "ended and removed. gitlab-ci-local is measured if it is installed (npm, and rsync); like the loop of `sh`, it "
        "isolates nothing."
    ),
    measure=_measure,
)
