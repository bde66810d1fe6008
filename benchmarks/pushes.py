"""Pushes to a connected repository: how soon they run, and what a flood of deliveries costs."""

from __future__ import annotations

import base64
import http.client
import threading
from contextlib import closing
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Benchmark, interleaved
from benchmarks.service import serving
from tests.e2e.pipelines import Graph
from tests.e2e.sources import archive
from tests.git_repository import GitRepository
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_ROUNDS = 10
_TIMEOUT_SECONDS = 60.0
_JOBS = 20
_FLOOD = 1_000
_FLOOD_ROUNDS = 3
_FILE = ".hm/pipeline.py"
_PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci():
    return hm.sh("echo line")
"""


class _Pushed:
    """A connected repository whose hook is gone, so that its deliveries are the benchmark's own."""

    def __init__(self, service: Service, testbed: Testbed) -> None:
        self._service = service
        self._numbers = count(1)
        self._repository = GitRepository(testbed.folder / "repository")
        self._commit = self._repository.commit("Begin", **{_FILE.replace("/", "__"): _PIPELINE})
        self._repository.push("main")
        bare = self._repository.bare
        service.daemon.command("repo", "connect", str(bare), "--org", service.org, "--poll", "86400")
        until(lambda: service.daemon.json("repo", "list")[0]["checked_at"], "the first check", _TIMEOUT_SECONDS)
        (bare / "hooks" / "post-receive").unlink()
        self._token = (bare / "ci-daemon.token").read_text().strip()
        self._builds = f"{service.builds.rpartition('/pipelines/')[0]}/pipelines/acme-web-ci/builds"
        self.push_and_wait()  # makes the pipeline, and fetches the repository

    def push_and_wait(self) -> float:
        """Push; return the milliseconds from the end of the delivery to the first byte of the log."""
        number = next(self._numbers)
        old, self._commit = self._commit, self._repository.commit("Change", file=str(number))
        self._repository.push("main")
        with closing(self._connection()) as connection:
            self.deliver(connection, f"{old} {self._commit} refs/heads/main\n", f"push-{number}")
        started = perf_counter()
        return self._service.first_byte(f"{self._builds}/{number}", started)

    def deliver(self, connection: http.client.HTTPConnection, body: str, name: str) -> None:
        """Report a push as the hook does. Raises RuntimeError if the service refuses."""
        headers = {"Authorization": f"Bearer {self._token}", "X-Delivery-Id": name, "Content-Type": "text/plain"}
        connection.request("POST", "/webhooks/git", body, headers)
        response = connection.getresponse()
        response.read()
        if response.status != http.client.ACCEPTED:
            raise RuntimeError(f"the delivery {name} was answered {response.status}")

    def flood(self, name: str) -> None:
        """Report a thousand pushes that moved nothing."""
        with closing(self._connection()) as connection:
            for number in range(_FLOOD):
                self.deliver(connection, f"{self._commit} {self._commit} refs/heads/main\n", f"{name}-{number}")

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._service.daemon.url.removeprefix("http://"))


def _measure(testbed: Testbed) -> Iterator[Figure]:
    with serving(testbed) as service:
        pushed = _Pushed(service, testbed)
        numbers = count()

        def submit() -> float:
            source = archive({_FILE: _PIPELINE.replace('"ci"', '"bench"'), "file": str(next(numbers))})
            started = perf_counter()
            return service.first_byte(service.post({"source_b64": base64.b64encode(source).decode()}), started)

        yield interleaved("delivery to the first line", "ms", _ROUNDS, pushed.push_and_wait, submit)
        names = (f"flood-{number}" for number in count())
        chain = _chain()

        def flooded() -> float:
            thread = threading.Thread(target=pushed.flood, args=(next(names),))
            thread.start()
            took = _build(service, chain)
            thread.join()
            return took

        label = f"chain of {_JOBS} during {_FLOOD} deliveries"
        yield interleaved(label, "ms", _FLOOD_ROUNDS, flooded, lambda: _build(service, chain))


def _build(service: Service, ir: str) -> float:
    started = perf_counter()
    service.finish(service.build(ir), _TIMEOUT_SECONDS)
    return (perf_counter() - started) * 1000


def _chain() -> str:
    graph = Graph().step("0", "true")
    for number in range(1, _JOBS):
        graph.step(str(number), "true", after=(str(number - 1),))
    return graph.ir()


PUSHES = Benchmark(
    name="pushes",
    title="From the last byte of a delivery to the first line of its job, and a flood of deliveries",
    baseline="a build of the same files, submitted by hand; the same chain without deliveries.",
    measure=_measure,
)
