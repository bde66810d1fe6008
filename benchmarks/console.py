"""The console's bounds: first bytes and sizes of pages, a large graph, a large log, people who watch."""

from __future__ import annotations

import gzip
import http.client
import json
import random
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from api.console import pages
from benchmarks.figures import Benchmark, Figure, interleaved
from benchmarks.http import serve_constant
from benchmarks.service import serving
from benchmarks.watchers import core_share
from tests.e2e.browser import chromium
from tests.e2e.console.visitor import visitor
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.service import Service
    from benchmarks.testbed import Testbed
    from tests.e2e.console.visitor import Visitor

_ROUNDS = 31
_BROWSER_ROUNDS = 9
_VIEWS = ("jobs", "graph")
_PAGE_KB, _ASSETS_KB = 60, 120
_PATIENCE_MS = 120_000
_LOG_BYTES = 200_000_000
_LOG = f"yes 'A line of sixty-four characters, as compilers like to print them.' | head -c {_LOG_BYTES}"
_LINKS = "".join(f'<li><a href="#{number}">Job number {number:04}</a></li>' for number in range(1000))
_FLOOR = f"<ul>{_LINKS}</ul>"
_SVG = "path => fetch(path).then(page => page.text()).then(text => /<svg[^]*?<.svg>/.exec(text)[0])"
_INSERT = """html => {
    const box = document.querySelector("main").appendChild(document.createElement("div"));
    box.className = "graph";
    document.body.offsetHeight;
    const started = performance.now();
    box.innerHTML = html;
    document.body.offsetHeight;
    const took = performance.now() - started;
    box.remove();
    return took;
}"""


def _measure(testbed: Testbed) -> Iterator[Figure]:
    limits = {
        "CI_DAEMON_JOBS_LOG_LIMIT_BYTES": str(2 * _LOG_BYTES),
        "CI_DAEMON_HTTP_THREADS": "320",
        "CI_DAEMON_HTTP_MAX_STREAMS": "256",
        "CI_DAEMON_HTTP_MAX_STREAMS_PER_READER": "256",
    }
    with serving(testbed, **limits) as service, chromium() as browser, visitor(browser, service.client) as ada:
        ada.page.set_default_timeout(_PATIENCE_MS)
        hundred, thousand = (_page(_planned(service, jobs)) for jobs in (100, 1000))
        logs = [_job(service, command) for command in (_LOG, "echo line")]
        shares = [100 * core_share(service, _cookie(ada), watchers) for watchers in (200, 0)]
        yield Figure("a core, of the service of a build that 200 watch", "%", *shares)
        yield from _of_page(service, ada, hundred)
        yield Figure("all scripts and styles, compressed", "KB", _assets(), _ASSETS_KB)
        yield _of_graph(ada, thousand)
        yield from _of_logs(ada, logs)


def _of_page(service: Service, ada: Visitor, page: str) -> Iterator[Figure]:
    """Yield the first byte and the size of the views of a build of 100 jobs."""
    host, cookie = service.daemon.url.removeprefix("http://"), _cookie(ada)
    with closing(http.client.HTTPConnection(host)) as ours:
        for view in _VIEWS:
            path = f"{page}?view={view}"
            content = _get(ours, path, cookie)[1]
            with _constant(content) as baseline:
                label = f"first byte of 100 jobs, view {view!r}"
                yield interleaved(label, "ms", _ROUNDS, lambda at=path: _get(ours, at, cookie)[0], baseline)  # type: ignore[misc]
            yield Figure(f"that page, compressed, view {view!r}", "KB", len(gzip.compress(content)) / 1000, _PAGE_KB)


def _of_graph(ada: Visitor, page: str) -> Figure:
    """Measure a graph of 1,000 jobs, of which none are alike, from its text to its layout."""
    ada.page.goto(f"{ada.url}/")
    svg = ada.page.evaluate(_SVG, f"{ada.url}{page}?view=graph&fold=no")
    sides = (lambda html=each: float(ada.page.evaluate(_INSERT, html)) for each in (svg, _FLOOR))
    return interleaved("DOM of a graph of 1,000 jobs", "ms", _BROWSER_ROUNDS, *sides)


def _of_logs(ada: Visitor, paths: Sequence[str]) -> Iterator[Figure]:
    """Yield the first screen of a log of 200 MB and of one of a line, at first and later."""
    yield interleaved("first screen of 200 MB of log, the first time", "ms", 1, *_screens(ada, paths))
    yield interleaved("first screen of 200 MB of log", "ms", _BROWSER_ROUNDS, *_screens(ada, paths))


def _screens(ada: Visitor, paths: Sequence[str]) -> Iterator[Callable[[], float]]:
    for path in paths:
        yield lambda at=path: _first_screen(ada, at)  # type: ignore[misc]


def _first_screen(ada: Visitor, path: str) -> float:
    started = perf_counter()
    ada.page.goto(f"{ada.url}{path}", wait_until="commit")
    ada.page.locator(".line").first.wait_for()
    return (perf_counter() - started) * 1000


def _planned(service: Service, jobs: int) -> str:
    """Build and cancel jobs that wait for one or two of the forty before them; return the build's path."""
    chance = random.Random(1)
    nodes = [{"step": {"key": f"job-{n}", "cmd": "true", "label": f"Job number {n}"}, "env": {}} for n in range(jobs)]
    edges = {(chance.randrange(max(0, to - 40), to), to) for to in range(1, jobs) for _ in range(1 + to % 2)}
    graph = {"nodes": nodes, "edges": [[*edge, "depends_on"] for edge in sorted(edges)]}
    build = service.build(json.dumps({"version": "0", "graph": graph}))
    service.client.request("PUT", f"{build}/cancel")
    return build


def _job(service: Service, command: str) -> str:
    """Run a job; return the path of its page."""
    build = service.build(one(command))
    service.finish(build, 120)
    (job,) = service.get(f"{build}/jobs")["data"]
    return f"{_page(build)}/jobs/{job['id']}"


def _page(build: str) -> str:
    return build.removeprefix("/api/v0/organizations")


def _cookie(ada: Visitor) -> str:
    return "; ".join(f"{each['name']}={each['value']}" for each in ada.page.context.cookies())


def _get(connection: http.client.HTTPConnection, path: str, cookie: str = "") -> tuple[float, bytes]:
    """Return the milliseconds to the first byte of an answer, and its content."""
    started = perf_counter()
    connection.request("GET", path, headers={"Cookie": cookie})
    response = connection.getresponse()
    took = (perf_counter() - started) * 1000
    content = response.read()
    if response.status != http.client.OK:
        raise RuntimeError(f"{path}: {response.status}")
    return took, content


@contextmanager
def _constant(content: bytes) -> Iterator[Callable[[], float]]:
    """Serve the same bytes from a falcon resource alone; yield a function that measures its first byte."""
    with serve_constant(content) as port, closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        yield lambda: _get(connection, "/record")[0]


def _assets() -> float:
    """Return the KB of all scripts and styles as a proxy compresses them."""
    files = (Path(pages.__file__).parent / "static").iterdir()
    contents = {file: file.read_bytes() for file in files if file.suffix in {".js", ".css", ".gz"}}
    return sum(len(each if file.suffix == ".gz" else gzip.compress(each)) for file, each in contents.items()) / 1000


CONSOLE = Benchmark(
    name="console",
    title="The console: first bytes, sizes, a graph of 1,000 jobs, 200 MB of log, and 200 people who watch a build",
    baseline=(
        "a falcon resource that answers the same bytes; of sizes, their bounds; a list of 1,000 links; the log of a"
        " line; the same build, which nobody watches."
    ),
    measure=_measure,
)
