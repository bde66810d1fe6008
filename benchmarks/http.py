"""The speed of the most used endpoints, with a growing number of builds in the database."""

from __future__ import annotations

import json
import re
import selectors
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from rich.table import Table

from benchmarks.seed import copy_builds
from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.testbed import Testbed
    from tests.e2e.daemon import Build

__all__ = ["HTTP"]

_SIZES = (10_000, 100_000, 1_000_000)
_CONNECTIONS = (1, 8, 32)
_ROUNDS = 3
_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 5.0
_BASELINE = "falcon resource alone"
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Answers per second, and the median and 99th percentile of their milliseconds."""

    rate: float
    p50: float
    p99: float


class HttpBenchmark:
    """Every endpoint at every number of connections and of builds in the database."""

    name = "http"
    title = "Answers a second, by connections that ask at once and builds in the database; the rest is with the most"
    baseline = "a falcon resource that answers the bytes of a build, on waitress with as many threads, same client."

    def report(self, testbed: Testbed) -> Table:
        """Measure, and return a line for each endpoint and number of connections."""
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
                with _serve_baseline(record) as port:
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
        "user": "/api/v0/user",
    }


def _interleaved(sides: Mapping[str, tuple[int, str]], headers: Mapping[str, str]) -> dict[tuple[str, int], _Measured]:
    """Measure every side once per round, and return the round with the median rate of each.

    In turns, a drift of the machine's speed affects all sides alike.
    """
    rounds = [
        {
            (name, connections): _ask(port, _request(path, headers), connections)
            for name, (port, path) in sides.items()
            for connections in _CONNECTIONS
        }
        for _ in range(_ROUNDS)
    ]
    return {each: sorted((one[each] for one in rounds), key=attrgetter("rate"))[_ROUNDS // 2] for each in rounds[0]}


def _port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextmanager
def _serve_baseline(record: bytes) -> Iterator[int]:
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


def _request(path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _ask(port: int, request: bytes, connections: int) -> _Measured:
    """Send a request again on each connection as soon as it is answered, and measure. Raises RuntimeError."""
    with ExitStack() as opened, selectors.DefaultSelector() as selector:
        asked: dict[socket.socket, float] = {}
        for _ in range(connections):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, connection)
            asked[connection] = 0.0
        started = now = perf_counter()
        for connection in asked:
            asked[connection] = now
            connection.sendall(request)
        received = dict.fromkeys(asked, b"")
        waits: list[float] = []
        while now < started + _SECONDS or not waits:
            for key, _ in selector.select(_TIMEOUT_SECONDS) or _raise_timeout():
                connection = key.data
                answer = received[connection] + connection.recv(_CHUNK_BYTES)
                received[connection] = answer
                if len(answer) == _length(answer):
                    now = perf_counter()
                    waits.append(now - asked[connection])
                    asked[connection], received[connection] = now, b""
                    connection.sendall(request)
            now = perf_counter()
        waits.sort()
        return _Measured(len(waits) / (now - started), median(waits) * 1000, waits[len(waits) * 99 // 100] * 1000)


def _length(answer: bytes) -> int | None:
    """Return the bytes of an answer, head and body; None before its head is there. Raises RuntimeError."""
    head, end, _ = answer.partition(b"\r\n\r\n")
    if not end:
        return None
    found = _CONTENT_LENGTH.search(head)
    if found is None or not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(answer.decode())
    return len(head) + len(end) + int(found[1])


def _raise_timeout() -> NoReturn:
    raise RuntimeError(f"no answer in {_TIMEOUT_SECONDS:g} s")


def _table(measured: Mapping[tuple[str, int], list[_Measured]]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    made.add_column(min_width=20)
    for heading in ("at once", *(f"{size:,}" for size in _SIZES), "p50", "p99", "of baseline"):
        made.add_column(heading, justify="right")
    for (name, connections), results in measured.items():
        last, baseline = results[-1], measured[_BASELINE, connections][-1]
        rates = [f"{each.rate:,.0f}" for each in results]
        times = [f"{last.p50:.1f} ms", f"{last.p99:.1f} ms"]
        made.add_row(name, str(connections), *rates, *times, f"{last.rate / baseline.rate:.2f}")
    return made


HTTP = HttpBenchmark()
