"""The price of durability: the service beside one that syncs nothing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from http.client import CREATED, HTTPConnection
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.builds import chain, fan
from benchmarks.figures import Benchmark, interleaved
from benchmarks.service import PARALLEL, Service, serving
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_CONNECTIONS = (1, 4, 16)
_POSTS = 320
_JOBS = 100
_ROUNDS = 5
_TIMEOUT_SECONDS = 300


def _measure(testbed: Testbed) -> Iterator[Figure]:
    waiting = {"CI_DAEMON_BUILDS_MAX_UNFINISHED": "100000", "CI_DAEMON_POOL_MAX_VMS": "1", "CI_DAEMON_POOL_PARKED": "0"}
    with _both(testbed, "posts", **waiting) as (ours, unsynced):
        for service in (ours, unsynced):
            service.build(one("sleep 3600"))  # so that what is posted waits
        for connections in _CONNECTIONS:
            label = f"builds posted by {connections} at once"
            yield interleaved(label, "/s", _ROUNDS, *(partial(_post, each, connections) for each in (ours, unsynced)))
    with _both(testbed, "jobs") as (ours, unsynced):
        for label, ir in {
            "jobs in a chain": chain(on_disk=False),
            "jobs in a chain, each on the disk of the last": chain(on_disk=True),
            f"jobs in a fan, {PARALLEL} at a time": fan(),
        }.items():
            yield interleaved(label, "/s", _ROUNDS, *(partial(_run, each, ir) for each in (ours, unsynced)))


@contextmanager
def _both(testbed: Testbed, name: str, **settings: str) -> Iterator[tuple[Service, Service]]:
    with (
        serving(testbed, state=name, **settings) as ours,
        serving(testbed, state=f"{name}-unsynced", program="benchmarks.unsynced", **settings) as unsynced,
    ):
        yield ours, unsynced


def _post(service: Service, connections: int) -> float:
    """Post builds over so many connections; return how many are answered in a second."""
    headers = {**service.headers, "Content-Type": "application/json"}
    body = json.dumps({"branch": "main", "commit": "0" * 40, "pipeline_ir": one("true")})

    def post() -> None:
        with closing(HTTPConnection(service.daemon.url.removeprefix("http://"))) as connection:
            for _ in range(_POSTS // connections):
                connection.request("POST", service.builds, body, headers)
                answer = connection.getresponse()
                if answer.status != CREATED:
                    raise RuntimeError(answer.read())
                answer.read()

    started = perf_counter()
    with ThreadPoolExecutor(connections) as threads:
        for posting in [threads.submit(post) for _ in range(connections)]:
            posting.result()
    return _POSTS / (perf_counter() - started)


def _run(service: Service, ir: str) -> float:
    """Run a build; return its jobs in a second."""
    started = perf_counter()
    service.finish(service.build(ir), _TIMEOUT_SECONDS)
    return _JOBS / (perf_counter() - started)


DURABILITY = Benchmark(
    name="durability",
    title="Builds answered and jobs run in a second, all that was told being on the disk",
    baseline="the same service without any sync, in turns: a power cut takes back what it answered.",
    measure=_measure,
)
