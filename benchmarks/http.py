"""The speed of the most used endpoints, with a growing number of builds in the database."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.seed import copy_builds
from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.testbed import Testbed
    from tests.e2e.daemon import Build

_SIZES = (10_000, 100_000, 1_000_000)
_CONNECTIONS = (1, 2, 4, 8, 16, 32, 64)
_USUAL = 8
_ROUNDS = 3
_SECONDS = 1
_USER = "user"
_BASELINE = "falcon resource alone"
_SCRIPT = Path(__file__).with_name("wrk.lua")


@dataclass(frozen=True, slots=True)
class _Measured:
    """Answers per second, and the median and 99th percentile of their milliseconds."""

    rate: float
    p50: float
    p99: float


class HttpBenchmark:
    """Every endpoint at eight connections and each number of builds, one at each number of connections.

    The client is `wrk`: one in Python would be slower than the service, and hide what it loses at few connections.
    """

    name = "http"
    title = "Answers a second, by connections that ask at once and builds in the database; the rest is with the most"
    baseline = "a falcon resource that answers the bytes of a build, on waitress with 16 threads, same client."

    def report(self, testbed: Testbed) -> Table:
        """Measure, and return a line for each endpoint and number of connections. Exits if `wrk` is missing."""
        if shutil.which("wrk") is None:
            sys.exit("The benchmark `http` needs wrk: `make bench` installs it, or `sudo apt-get install wrk`.")
        measured: dict[tuple[str, int], list[_Measured]] = {}
        state = testbed.folder / "state"
        daemon = Daemon(state, {"CI_DAEMON_IMAGES_DIR": str(testbed.images_dir), "CI_DAEMON_POOL_PARKED": "0"})
        daemon.command("init")
        try:
            daemon.start()
            client = Client.create(daemon, "bench@example.org")
            build = client.pipeline().build(one("true"))
            record = json.dumps(build.finish()).encode()
            headers = {"Authorization": f"Bearer {client.token}"}
            paths = _paths(client, build)
            for size in _SIZES:
                daemon.stop()
                copy_builds(state / "ci-daemon.sqlite3", size)
                daemon.start()
                with serve_constant(record) as port:
                    sides = {name: (_port_of(daemon.url), path) for name, path in paths.items()}
                    sides[_BASELINE] = (port, "/record")
                    for each, answered in _interleaved(sides, headers).items():
                        measured.setdefault(each, []).append(answered)
            daemon.stop()
        finally:
            daemon.kill()
            daemon.command("lease", "kill", "--all")
        return _table(measured)


def _paths(client: Client, build: Build) -> dict[str, str]:
    """Return the paths of the ten most used endpoints by a short name."""
    organization = f"/api/v0/organizations/{client.org}"
    at = f"{organization}/{build.path}"
    pipeline = at.partition("/builds/")[0]
    job = f"{at}/jobs/{build.jobs()['only']['id']}"
    return {
        "build": at,
        "its jobs": f"{at}/jobs",
        "job": job,
        "its log": f"{job}/log",
        "log token": f"{at}/log-token",
        "page of 50 builds": f"{pipeline}/builds",
        "pipeline": pipeline,
        "page of pipelines": f"{organization}/pipelines",
        "balance": f"/api/v0/billing/balance/{client.org}",
        _USER: "/api/v0/user",
    }


def _interleaved(sides: Mapping[str, tuple[int, str]], headers: Mapping[str, str]) -> dict[tuple[str, int], _Measured]:
    """Measure every side once per round, and return the round with the median rate of each.

    In turns, a drift of the machine's speed affects all sides alike.
    """
    rounds = [
        {
            (name, connections): _ask(f"http://127.0.0.1:{port}{path}", headers, connections)
            for connections in _CONNECTIONS
            for name, (port, path) in sides.items()
            if connections == _USUAL or name in {_USER, _BASELINE}
        }
        for _ in range(_ROUNDS)
    ]
    return {each: sorted((one[each] for one in rounds), key=attrgetter("rate"))[_ROUNDS // 2] for each in rounds[0]}


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextmanager
def serve_constant(record: bytes) -> Iterator[int]:
    """Serve a constant record, and yield the port."""
    argv = [sys.executable, "-m", "benchmarks.baseline_http"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        try:
            server.stdin.write(record)
            server.stdin.close()
            yield int(server.stdout.readline())
        finally:
            server.kill()


def _ask(url: str, headers: Mapping[str, str], connections: int) -> _Measured:
    """Let `wrk` ask again on each connection as soon as it is answered. Raises RuntimeError."""
    given = [f"-H{name}: {value}" for name, value in headers.items()]
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{_SECONDS}s", f"-s{_SCRIPT}", *given, url]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    answers, duration, p50, p99, failures = map(float, output.splitlines()[-1].split())
    if failures or not answers:
        raise RuntimeError(output)
    return _Measured(answers / duration * 1e6, p50 / 1000, p99 / 1000)


def _table(measured: Mapping[tuple[str, int], list[_Measured]]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(min_width=20)
    for heading in ("at once", *(f"{size:,}" for size in _SIZES), "p50", "p99", "of baseline"):
        made.add_column(heading, justify="right")
    for (name, connections), results in sorted(measured.items(), key=lambda each: each[0][0] in {_USER, _BASELINE}):
        last, baseline = results[-1], measured[_BASELINE, connections][-1]
        rates = [f"{each.rate:,.0f}" for each in results]
        times = [f"{last.p50:.1f} ms", f"{last.p99:.1f} ms"]
        made.add_row(name, str(connections), *rates, *times, f"{last.rate / baseline.rate:.2f}")
    return made


HTTP = HttpBenchmark()
