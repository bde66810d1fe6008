"""A fake engine for a service without VMs: it records calls, and tests move the jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from actors.forks import ForkRun, RunOutcome
from actors.render import Envelope
from storage import Build, BuildState, Job, JobState, Storage
from tests.clock import ManualClock


class FakeEngine:
    """An engine without actors: it records calls, and wakes readers when a test says so.

    With a clock, a wait without a change advances the clock instead of blocking, so that tests of waiting take no time.
    """

    def __init__(self, storage: Storage, clock: ManualClock | None) -> None:
        self._storage = storage
        self.clock = clock
        self._changed: dict[str, threading.Event] = {}
        self.draining = False
        self.sends_mail = True
        self.refusal: Exception | None = None
        self.added = 0
        self.gates: list[int] = []
        self.deliveries = 0
        self.notifications = 0
        self.builds_added = threading.Semaphore(0)
        self.readers_added = threading.Semaphore(0)
        self.canceled: list[int] = []
        self.rendering: list[int] = []
        self.renders_blocked: str | None = None
        self.envelope: Envelope | None = None
        self.rendered: Callable[[int], object] | None = None
        """Called with the id of each build to render; stores the result."""
        self.runs: list[tuple[int, ForkRun, str]] = []
        self.run_outcome: RunOutcome | Exception = RunOutcome(0, "ok\n", 0, timed_out=False, seconds=0.1)
        self.reading: list[FakeWatch] = []
        self.during_waits: list[Callable[[], None]] = []
        """Callbacks for waits for a log: each wait takes the next one and runs it."""

    def collectors(self) -> tuple[()]:
        return ()

    def jobs_added(self, build_id: int) -> None:
        self.added += 1
        self.builds_added.release()

    def gate_decided(self, build_id: int) -> None:
        self.gates.append(build_id)

    def render(self, build_id: int) -> None:
        self.rendering.append(build_id)
        if self.rendered is not None:
            self.rendered(build_id)

    def deliveries_added(self) -> None:
        self.deliveries += 1

    def proofs_changed(self) -> None:
        """Do nothing."""

    def notifications_added(self) -> None:
        self.notifications += 1

    def renders_wait(self) -> str | None:
        return self.renders_blocked

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        return self.envelope

    def run_on_fork(
        self, build: Build, job: Job, run: ForkRun, *, opened_by: str, gone: Callable[[], bool]
    ) -> RunOutcome:
        self.runs.append((job.id, run, opened_by))
        if isinstance(self.run_outcome, Exception):
            raise self.run_outcome
        return self.run_outcome

    def cancel(self, build_id: int) -> None:
        self.canceled.append(build_id)
        self._storage.builds.request_cancel(build_id)
        if self.refusal is not None:
            raise self.refusal
        for job in self._storage.jobs.of_build(build_id):
            self._storage.jobs.move(job.id, job.state, JobState.CANCELED)
        self._storage.builds.move(build_id, BuildState.SCHEDULED, BuildState.CANCELED)

    @contextmanager
    def watch(self, job_uuid: str) -> Iterator[FakeWatch]:
        changed = self._changed.setdefault(job_uuid, threading.Event())
        watch = FakeWatch(changed, self)
        self.reading.append(watch)
        self.readers_added.release()
        try:
            yield watch
        finally:
            self.reading.remove(watch)

    def log_changed(self, job_uuid: str) -> None:
        """Wake the readers of the job's log."""
        self._changed.setdefault(job_uuid, threading.Event()).set()

    def pending_reason(self, job: Job) -> str | None:
        return "waiting for a VM: host is full (4 of 4)" if job.state is JobState.SCHEDULED else None


@dataclass(eq=False)
class FakeWatch:
    changed: threading.Event
    engine: FakeEngine

    def wait(self, timeout: float) -> bool:
        if self.engine.during_waits:
            self.engine.during_waits.pop(0)()
        if self.engine.clock is not None and not self.changed.is_set():
            self.engine.clock.advance(timeout)
            return False
        changed = self.changed.wait(timeout)
        self.changed.clear()
        return changed
