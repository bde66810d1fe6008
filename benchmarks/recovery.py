"""Recovery after `kill -9`: the time until the next daemon has taken over all jobs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from itertools import count
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from actors.vms import SandboxProvider
from actors.vms.host import IdMap
from actors.vms.images import ImageStore
from benchmarks.figures import Benchmark, Figure
from benchmarks.testbed import first_command
from storage import Storage, SystemClock
from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import Graph
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.testbed import Testbed
    from storage import JobLog

_JOBS = (20, 100, 300)
_ROUNDS = 3
_PRINT_SECONDS = 4
_PRINT = f"while sleep {_PRINT_SECONDS}; do echo still here; done"
_TIMEOUT_SECONDS = 300.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _Running:
    """A daemon with running jobs that print a line every few seconds."""

    daemon: Daemon
    storage: Storage
    provider: SandboxProvider
    logs: list[JobLog]

    def recover(self) -> tuple[float, float]:
        """Kill the daemon and start the next one.

        Returns the seconds to its first answer, and to the growth of the last job's log. The daemon is down long enough
        for every job to print a line meanwhile.
        """
        self.daemon.kill()
        sizes = [log.size() for log in self.logs]
        time.sleep(2 * _PRINT_SECONDS)
        started = perf_counter()
        answered = _start_until_ok(self.daemon)
        waiting = list(zip(self.logs, sizes, strict=True))
        while waiting:
            waiting = [(log, size) for log, size in waiting if log.size() == size]
            if perf_counter() - started > _TIMEOUT_SECONDS:
                raise RuntimeError(f"{len(waiting)} jobs were not attached to within {_TIMEOUT_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)
        return answered, perf_counter() - started

    def connect(self) -> float:
        """Run `true` over SSH in all VMs at once, and return the seconds to the last result."""
        vms = [lease.uuid for lease in self.storage.leases.live()]
        started = perf_counter()
        with ThreadPoolExecutor(len(vms)) as threads:
            for answer in [threads.submit(self._ask, vm) for vm in vms]:
                answer.result()
        return perf_counter() - started

    def _ask(self, vm: str) -> None:
        first_command(self.provider.connect(vm), perf_counter())


def _measure(testbed: Testbed) -> Iterator[Figure]:
    numbers = count()
    for jobs in _JOBS:
        with _running(testbed, jobs) as running:
            rounds = [(*running.recover(), running.connect(), _start_empty(testbed, numbers)) for _ in range(_ROUNDS)]
        answered, attached, connected, empty = (median(side) for side in zip(*rounds, strict=True))
        yield Figure(f"{jobs} running jobs, to the first answer", "ms", answered * 1000, empty * 1000)
        yield Figure(f"{jobs} running jobs, to the last one's log", "ms", attached * 1000, (empty + connected) * 1000)


@contextmanager
def _running(testbed: Testbed, jobs: int) -> Iterator[_Running]:
    """Run a daemon with that many running jobs, and destroy their VMs at the end."""
    daemon = _daemon(testbed, f"state-{jobs}", jobs)
    try:
        daemon.start()
        pipeline = Client.create(daemon, "bench@example.org", cents=10**9).pipeline()
        graph = Graph()
        for number in range(jobs):
            graph.step(str(number), _PRINT, runner_args={"network": "off"})
        pipeline.build(graph.ir())
        clock = SystemClock()
        storage = Storage.open(daemon.state, clock)
        try:
            (build,) = storage.builds.unfinished()
            logs = [storage.logs.reader(build.uuid, job.uuid) for job in storage.jobs.of_build(build.id)]
            until(lambda: all(log.size() for log in logs), "output of every job", _TIMEOUT_SECONDS)
            idmap = IdMap.of_caller()
            images = ImageStore(testbed.images_dir, idmap)
            provider = SandboxProvider(daemon.state / "sandbox", images, idmap, clock)
            yield _Running(daemon, storage, provider, logs)
        finally:
            storage.close()
    finally:
        daemon.kill()
        daemon.command("lease", "kill", "--all")


def _start_empty(testbed: Testbed, numbers: Iterator[int]) -> float:
    """Start a daemon with nothing to take over, and return the seconds to its first answer."""
    daemon = _daemon(testbed, f"empty-{next(numbers)}", 1)
    try:
        return _start_until_ok(daemon)
    finally:
        daemon.kill()


def _daemon(testbed: Testbed, name: str, vms: int) -> Daemon:
    settings = {
        "CI_DAEMON_IMAGES_DIR": str(testbed.images_dir),
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_POOL_MAX_VMS": str(vms),
        "CI_DAEMON_POOL_MAX_CPU": "10000",
        "CI_DAEMON_POOL_MAX_MEMORY_GB": "100000",
        "CI_DAEMON_POOL_LOW_DISK_GB": "0",
    }
    daemon = Daemon(testbed.folder / name, settings)
    daemon.command("init")
    return daemon


def _start_until_ok(daemon: Daemon) -> float:
    """Start a daemon and return the seconds from its exec to the first `ok` of `/healthz`."""
    started = perf_counter()
    daemon.spawn()
    while (url := daemon.announced()) is None:
        if not daemon.running:
            raise RuntimeError(f"the daemon ended: {daemon.log[-2000:]}")
        time.sleep(_POLL_SECONDS)
    daemon.url = url
    with closing(HTTPConnection(url.removeprefix("http://"))) as connection:
        connection.request("GET", "/healthz")
        if connection.getresponse().status != HTTPStatus.OK:
            raise RuntimeError(f"it is not well: {daemon.log[-2000:]}")
    return perf_counter() - started


RECOVERY = Benchmark(
    name="recovery",
    title="Recovery from `kill -9`, from the next daemon's exec on",
    baseline=(
        "the start of a daemon with nothing to take over; to the last job's log, that and the time in which the "
        "service's own SSH client, all at once, gets an answer of `true` from as many VMs."
    ),
    measure=_measure,
)
