"""The cost of a job to the daemon on one host: with more jobs at once, and with a long queue.

The VMs are simulated and answer at once, so that all that is counted is the daemon's own.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.scale.fleet import DELAYS, NO_DELAYS
from benchmarks.scale.observed import Observer
from benchmarks.scale.run import Guests, Size, daemon_over, guests_in
from tests.e2e.daemon import Client
from tests.e2e.pipelines import Graph, one

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.scale.observed import Observation
    from benchmarks.testbed import Testbed

_CENTS = 10**9
_MAX_UNFINISHED = "CI_DAEMON_BUILDS_MAX_UNFINISHED"
_JOBS_PER_BUILD = 20
_ROUNDS = 20
_POLL_SECONDS = 0.02
_SECONDS_PER_JOB = 2.0
_MB = 10**6


@dataclass(frozen=True, slots=True)
class _Host:
    """A daemon over a simulated host, its guests, and a client that keeps its connection."""

    observer: Observer
    guests: Guests
    connection: http.client.HTTPConnection
    client: Client
    slug: str

    def post(self, ir: str) -> None:
        """Post a build. Raises RuntimeError if the daemon refuses it."""
        path = f"/api/v0/organizations/{self.client.org}/pipelines/{self.slug}/builds"
        body = json.dumps({"branch": "main", "commit": "0" * 40, "pipeline_ir": ir})
        headers = {"Authorization": f"Bearer {self.client.token}", "Content-Type": "application/json"}
        self.connection.request("POST", path, body, headers)
        answer = self.connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.client.CREATED:
            raise RuntimeError(f"POST {path}: {answer.status} {text}")

    def at(self, counts: Iterable[int]) -> Iterator[tuple[int, Observation]]:
        """Wait for each count of passed jobs; yield how many have passed, and what is to be seen then."""
        for wanted in counts:
            deadline = perf_counter() + _SECONDS_PER_JOB * wanted + 60
            while (passed := self.observer.jobs()["passed"]) < wanted:
                if perf_counter() > deadline:
                    raise RuntimeError(f"{passed} of {wanted} jobs have passed in time: {self.observer.jobs()}")
                time.sleep(_POLL_SECONDS)
            yield passed, self.observer.observe()


@contextmanager
def _host(testbed: Testbed, name: str, at_once: int) -> Iterator[_Host]:
    """Run a daemon with VMs for so many jobs at once on one host."""
    folder = testbed.folder / name
    folder.mkdir()
    with (
        guests_in(folder) as guests,
        daemon_over(testbed, folder, Size(at_once, at_once), {DELAYS: NO_DELAYS, _MAX_UNFINISHED: "100000"}) as daemon,
    ):
        client = Client.create(daemon, "bench@example.org", _CENTS)
        with closing(http.client.HTTPConnection(daemon.url.removeprefix("http://"))) as connection:
            observer = Observer(daemon.pid, daemon.state)
            yield _Host(observer, guests, connection, client, client.pipeline().slug)


class DrainBenchmark:
    """A long queue of builds that is drained: whether the last hundred cost more than the first."""

    name = "drain"
    builds = int(os.environ.get("BENCHMARK_DRAIN_BUILDS", "10000"))
    at_once = 4
    title = f"{builds:,} builds of one job, queued first, then drained {at_once} at a time on a simulated host"
    baseline = "the first 100 jobs. BENCHMARK_DRAIN_BUILDS is another number of builds, a multiple of 100."

    def report(self, testbed: Testbed) -> Table:
        """Measure; return a line for the first hundred jobs, each tenth, and the last hundred."""
        made = _table("jobs")
        with _host(testbed, self.name, self.at_once) as host:
            for _ in range(self.builds):
                host.post(one("as ordered"))
            bounds = {0, 100, self.builds - 100, self.builds, *range(0, self.builds, max(100, self.builds // 10))}
            host.guests.order("end")
            for (first, before), (last, after) in pairwise(host.at(sorted(bounds))):
                _add(made, f"{first:,} to {last:,}", last - first, before, after)
        return made


class AtOnceBenchmark:
    """Builds that run more and more jobs at once: what gives out first."""

    name = "at-once"
    numbers = (4, 16, 32, 64)
    title = f"{_ROUNDS} rounds of as many jobs as run at once, on a simulated host"
    baseline = f"{numbers[0]} jobs at once."

    def report(self, testbed: Testbed) -> Table:
        """Measure each number of jobs at once; return a line for each."""
        made = _table("jobs at once")
        for number in self.numbers:
            with _host(testbed, f"{self.name}-{number}", number) as host:
                host.guests.order("end")
                jobs = number * _ROUNDS
                for _ in range(jobs // _JOBS_PER_BUILD):
                    host.post(_fan())
                (first, before), (last, after) = host.at((number, jobs))
                _add(made, str(number), last - first, before, after)
        return made


def _fan() -> str:
    graph = Graph()
    for number in range(_JOBS_PER_BUILD):
        graph.step(str(number), "as ordered")
    return graph.ir()


def _table(first: str) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(first)
    headings = ("jobs a second", "ms of CPU a job", "cores", "commits a job", "threads", "MB")
    for heading in headings:
        made.add_column(heading, justify="right")
    return made


def _add(made: Table, name: str, jobs: int, before: Observation, after: Observation) -> None:
    """Add what so many jobs took between two observations, and what the daemon holds after them."""
    seconds, cpu = after.at - before.at, after.cpu_seconds - before.cpu_seconds
    made.add_row(
        name,
        f"{jobs / seconds:.1f}",
        f"{cpu * 1000 / jobs:.1f}",
        f"{cpu / seconds:.2f}",
        f"{(after.commits - before.commits) / jobs:.1f}",
        f"{after.threads:,}",
        f"{after.memory_bytes / _MB:,.0f}",
    )


DRAIN = DrainBenchmark()
AT_ONCE = AtOnceBenchmark()
