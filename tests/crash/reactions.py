"""A client that answers gates, cancels builds and retries them at once, while the service is killed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import httpx

from storage import Build, BuildState, GateState, Storage
from tests.crash.scenarios import Scenario
from tests.e2e.daemon import Client

_PAUSE = 0.003
_LATER = {"build_not_finished", "busy", "draining", "gate_not_awaited"}


class Reactions:
    """A thread that looks at all builds of which something is to be done, many times a second.

    It sees states in the database, so that a retry comes right at a build's end. ``ended_at`` has the attempts that a
    job had when it asked for a retry: with each of them a run of the job was over, and ``ends`` the times at which its
    build was. ``answered`` has the gates whose
    answer the service has confirmed, by the id of the job.
    """

    def __init__(self, storage: Storage, client: Client, scenario: Callable[[Build], Scenario], seed: int) -> None:
        self._storage = storage
        self._client = client
        self._scenario = scenario
        self._rng = random.Random(seed)
        self._open: dict[int, str] = {}
        self._canceled: set[int] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.ended_at: dict[int, set[int]] = {}
        self.ends: dict[int, set[datetime]] = {}
        self.answered: dict[int, GateState] = {}
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []

    def start(self) -> None:
        """Begin to react."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the service may be gone."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def idle(self) -> bool:
        """Tell whether no build is to be retried any more."""
        return all(build is None or build.state is BuildState.PASSED for build in map(self._get, list(self._open)))

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE):
            try:
                self._look()
            except httpx.TransportError:
                self._stopping.wait(_PAUSE)
            except Exception as error:  # noqa: BLE001 - the check after the run shows it
                self.failures.append(repr(error))

    def _look(self) -> None:
        for build in self._storage.builds.unfinished():
            scenario = self._scenario(build)
            if scenario.retried:
                self._open.setdefault(build.id, "retry")
            if scenario.answer is not None:
                self._answer(build, scenario.answer)
            if scenario.canceled_first and build.id not in self._canceled and build.state is BuildState.RUNNING:
                self._cancel(build)
        for build_id in list(self._open):
            ended = self._get(build_id)
            if ended is None or ended.state is BuildState.PASSED:
                del self._open[build_id]
            elif ended.state.terminal:
                self._retry(ended)

    def _answer(self, build: Build, answer: GateState) -> None:
        for job_id, gate in self._storage.gates.of_build(build.id).items():
            if gate.state is not GateState.WAITING:
                continue
            job = self._storage.jobs.get(job_id)
            assert job is not None
            what = "approve" if answer is GateState.APPROVED else "reject"
            if self._asked("POST", f"{_path(build)}/jobs/{job.uuid}/{what}"):
                self.answered[job_id] = answer
                self.done[str(answer)] += 1

    def _cancel(self, build: Build) -> None:
        if self._rng.random() < 0.05 and self._asked("PUT", f"{_path(build)}/cancel"):
            self._canceled.add(build.id)
            self.done["canceled"] += 1

    def _retry(self, build: Build) -> None:
        assert build.finished_at is not None
        self.ends.setdefault(build.id, set()).add(build.finished_at)
        for job in self._storage.jobs.of_build(build.id):
            self.ended_at.setdefault(job.id, set()).add(job.attempt)
        if self._asked("POST", f"{_path(build)}/retry"):
            self.done["retried"] += 1

    def _asked(self, method: str, path: str) -> bool:
        """Send a request; tell whether the service did as it was asked. Raises httpx.TransportError."""
        response = self._client.request(method, path)
        if response.status_code == httpx.codes.OK:
            return True
        if response.json()["error"]["code"] not in _LATER:
            self.failures.append(f"{method} {path}: {response.status_code} {response.text}")
        return False

    def _get(self, build_id: int) -> Build | None:
        return self._storage.builds.get(build_id)


def _path(build: Build) -> str:
    return f"pipelines/{build.pipeline_slug}/builds/{build.number}"
