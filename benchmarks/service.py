"""The daemon as a process, and an API client that needs little CPU."""

from __future__ import annotations

import http.client
import json
import os
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.e2e.daemon import FINAL, Client, Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.testbed import Testbed

PARALLEL = 2 * (os.cpu_count() or 1)
"""The number of jobs at once: twice the CPUs, as the service suggests for a host."""

_EMAIL = "bench@example.org"
_POLL_SECONDS = 0.02
_SHORT_POLL_SECONDS = 0.005
_TIMEOUT_SECONDS = 60.0
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Service:
    """A client of a running service over one persistent connection."""

    daemon: Daemon
    org: str
    connection: http.client.HTTPConnection
    headers: Mapping[str, str]
    builds: str

    @property
    def client(self) -> Client:
        """The client as tests have it."""
        return Client(self.daemon, _EMAIL, self.org, self.headers["Authorization"].removeprefix("Bearer "))

    def build(self, ir: str) -> str:
        """Post a build and return its path."""
        return self.post({"pipeline_ir": ir})

    def post(self, fields: Mapping[str, str]) -> str:
        """Post a build with these fields and return its path."""
        body = json.dumps({"branch": "main", "commit": "0" * 40, **fields})
        return f"{self.builds}/{self._answer('POST', self.builds, body)['number']}"

    def secret(self, name: str, value: str) -> None:
        """Set a secret of the pipeline."""
        self._answer("PUT", f"{self.builds.removesuffix('/builds')}/secrets/{name}", json.dumps({"value": value}))

    def finish(self, build: str, seconds: float) -> None:
        """Wait until a build has passed. Raises RuntimeError if it ends otherwise, or not in time."""
        deadline = time.monotonic() + seconds
        while (state := self.get(build)["state"]) not in FINAL and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if state != "passed":
            raise RuntimeError(f"{build} is {state}")

    def first_byte(self, build: str, started: float) -> float:
        """Return the milliseconds from ``started`` to the first byte of the log of a build's only job.

        ``started`` is of `perf_counter`. The build has passed then, too. Raises RuntimeError if it does not, or not in
        time.
        """
        jobs: list[Any] = []
        while not jobs:
            try:
                jobs = self.get(f"{build}/jobs")["data"]
            except RuntimeError:
                if time.perf_counter() - started > _TIMEOUT_SECONDS:
                    raise
            if not jobs:
                time.sleep(_SHORT_POLL_SECONDS)
        log = self.log(f"{build}/jobs/{jobs[0]['id']}/log")
        next(log)
        took = (time.perf_counter() - started) * 1000
        for _ in log:
            pass
        self.finish(build, _TIMEOUT_SECONDS)
        return took

    def get(self, path: str) -> dict[str, Any]:
        """Read a resource. Raises RuntimeError if the service refuses."""
        return self._answer("GET", path)

    def log(self, path: str) -> Iterator[int]:
        """Follow a log to its end; yield the size of each chunk that arrives."""
        at, complete, chunk = 0, False, bytearray(_CHUNK_BYTES)
        while not complete:
            self.connection.request("GET", f"{path}?wait=30", headers={**self.headers, "Range": f"bytes={at}-"})
            response = self.connection.getresponse()
            complete = response.getheader("X-Log-Complete") == "true"
            while size := response.readinto(chunk):
                if response.status == http.client.PARTIAL_CONTENT:
                    at += size
                    yield size

    def _answer(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        self.connection.request(method, path, body, {**self.headers, "Content-Type": "application/json"})
        response = self.connection.getresponse()
        answer = response.read()
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{method} {path}: {response.status} {answer.decode()}")
        return dict(json.loads(answer))


@contextmanager
def serving(
    testbed: Testbed, *, state: str = "state", program: str = "ci_daemon", **settings: str
) -> Iterator[Service]:
    """Run a service, or a program in its place, on a new state directory; destroy its VMs at the end."""
    fixed = {
        "CI_DAEMON_IMAGES_DIR": str(testbed.images_dir),
        "CI_DAEMON_POOL_MAX_VMS": str(PARALLEL),
        "CI_DAEMON_POOL_MAX_CPU": "1000",
        "CI_DAEMON_POOL_MAX_MEMORY_GB": "10000",
    }
    daemon = Daemon(testbed.folder / state, {**fixed, **settings})
    daemon.command("init")
    try:
        daemon.start(program)
        client = Client.create(daemon, _EMAIL)
        builds = f"/api/v0/organizations/{client.org}/pipelines/{client.pipeline().slug}/builds"
        with closing(http.client.HTTPConnection(daemon.url.removeprefix("http://"))) as connection:
            yield Service(daemon, client.org, connection, {"Authorization": f"Bearer {client.token}"}, builds)
        daemon.stop()
    finally:
        daemon.kill()
        daemon.command("lease", "kill", "--all")
