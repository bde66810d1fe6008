"""Builds that use all that a power cut may damage: disks, caches, artifacts, archives and logs."""

from __future__ import annotations

import base64
import io
import itertools
import random
import tarfile
import threading
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from tests.e2e.daemon import FINAL, Client, Pipeline
from tests.e2e.pipelines import Graph
from tests.power.witness import Witness

_OF_THE_CUT = ("service_unavailable", "internal_error")
"""Words of the answers that the service gives until it is ended: its disk is gone."""

_UNFINISHED = 12
_POSTERS = 3
_WATCHERS = 2
_BUILDS_PER_CACHE_KEY = 8
_LINES = 20
_WRITE = "head -c 200000 /dev/urandom >data; for i in $(seq 40); do echo $i >small$i; done; sha256sum data small* >sums"
_CHECK = "sha256sum --check --quiet sums"


@dataclass
class Planned:
    """A build to post. Its name is in each line that its jobs print."""

    name: str
    graph: Graph = field(default_factory=Graph)
    source: bytes | None = None

    def step(self, key: str, then: str, **options: Any) -> Planned:
        """Add a step that prints lines of its own, and then runs a command."""
        line = f"{self.name} {key} $CI_BUILD_NUMBER $CI_ATTEMPT $i"
        self.graph.step(key, f'for i in $(seq {_LINES}); do echo "{line}"; done; {then}', **options)
        return self

    @staticmethod
    def output(name: str, key: str, number: int, attempt: int) -> bytes:
        """Return what a step prints in an attempt."""
        return "".join(f"{name} {key} {number} {attempt} {i}\n" for i in range(1, _LINES + 1)).encode()


class Load:
    """Threads that post builds, follow them to their ends, and let a witness note what they are told."""

    def __init__(self, client: Client, pipeline: Pipeline, witness: Witness) -> None:
        self._client = client
        self._pipeline = pipeline
        self._witness = witness
        self._stopping = threading.Event()
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []

    def start(self) -> None:
        """Begin to post and watch."""
        self._stopping.clear()
        work = [self._post_one] * _POSTERS + [self._watch_one] * _WATCHERS
        self._threads = [threading.Thread(target=self._repeat, args=(each,)) for each in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads; the service may be gone."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def watch(self, number: int) -> bool:
        """Tell whether a build has ended; if it has, note what is told of it."""
        path = f"pipelines/{self._pipeline.slug}/builds/{number}"
        build = self._client.get(path)
        if build["state"] not in FINAL:
            return False
        logs = []
        for job in self._client.get(f"{path}/jobs")["data"]:
            log = self._client.request("GET", f"{path}/jobs/{job['id']}/log")
            if log.status_code == httpx.codes.OK and log.headers["X-Log-Complete"] == "true":
                logs.append((job, log.text))
        self._witness.told_end(build, logs, self._client.get(f"{path}/artifacts")["data"])
        self._witness.told_entries(self._client.get(f"/api/v0/billing/transactions/{self._client.org}")["data"])
        return True

    def _repeat(self, work: object) -> None:
        assert callable(work)
        while not self._stopping.is_set():
            try:
                work()
            except httpx.TransportError:
                self._stopping.wait(0.01)
            except AssertionError as error:
                if not any(kind in str(error) for kind in _OF_THE_CUT):
                    self.failures.append(str(error))

    def _post_one(self) -> None:
        if len(self._witness.open_builds()) >= _UNFINISHED:
            self._stopping.wait(0.02)
            return
        planned = self._plan(next(self._numbers))
        fields = {"branch": "main", "commit": "0" * 40, "message": planned.name, "pipeline_ir": planned.graph.ir()}
        files = {} if planned.source is None else {"source_b64": _base64(planned.source)}
        answer = self._client.request("POST", f"pipelines/{self._pipeline.slug}/builds", json=fields | files)
        if answer.status_code == httpx.codes.CREATED:
            self._witness.answered(answer.json(), planned.source)
        else:
            assert answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR, answer.text

    def _watch_one(self) -> None:
        opened = self._witness.open_builds()
        if not opened or not self.watch(random.choice(opened)):
            self._stopping.wait(0.02)

    def _plan(self, number: int) -> Planned:
        planned = Planned(f"{number}-{uuid4().hex[:8]}")
        match number % 6:
            case 0:
                return planned.step("only", "exit 0")
            case 1:
                planned.step("writes", _WRITE)
                return planned.step("checks", _CHECK, builds_in="writes")
            case 2:
                key = f"shared-{number // 6 // _BUILDS_PER_CACHE_KEY}"
                planned.step("cached", _WRITE, cache={"policy": "forever", "key": key})
                return planned.step("checks", _CHECK, builds_in="cached")
            case 3:
                return planned.step("keeps", _WRITE, runner_args={"artifacts": ["data", "small*"]})
            case 4:
                planned.source = _archive(planned.name)
                return planned.step("reads", f'test "$(cat name)" = {planned.name}')
            case _:
                return planned.step("flaky", 'test "$CI_ATTEMPT" -ge 2', runner_args={"retry": {"limit": 2}})


def _archive(name: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in (("name", name.encode()), ("random", random.randbytes(50_000))):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
