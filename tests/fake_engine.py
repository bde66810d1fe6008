"""A fake engine for a service without VMs: it records calls, and tests move the jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, TypeVar
from uuid import uuid4

from actors import PreviewHosts
from actors.forks import DiskFolder, ForkWork, ListFolder, RunOutcome, Shown, TakeFile, TerminalGone
from actors.forks.files import DiskEntry, TakenFile
from actors.render import Envelope
from actors.vms import PortSocket
from storage import Build, BuildState, Caller, ForkTerminal, HoldEnd, Job, JobState, Preview, Shape, Storage
from tests.clock import ManualClock

T = TypeVar("T")


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
        self.needing_vms = 0
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
        self.runs: list[tuple[int, object, str]] = []
        self.run_outcome: RunOutcome | Exception = RunOutcome(0, "ok\n", 0, timed_out=False, seconds=0.1)
        self.terminals = FakeTerminals(storage)
        self.previews = FakePreviews(storage)
        self.reading: list[FakeWatch] = []
        self.during_waits: list[Callable[[], None]] = []
        """Callbacks for waits for a log: each wait takes the next one and runs it."""

    def collectors(self) -> tuple[()]:
        return ()

    def jobs_added(self, build_id: int, *, need_vms: bool = False) -> None:
        self.added += 1
        self.needing_vms += need_vms
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

    def run_on_fork(self, build: Build, job: Job, run: ForkWork[T], *, opened_by: str, gone: Callable[[], bool]) -> T:
        self.runs.append((job.id, run, opened_by))
        if isinstance(self.run_outcome, Exception):
            raise self.run_outcome
        outcome: Any = self.run_outcome
        work: object = run
        if isinstance(work, ListFolder):
            outcome = DiskFolder(work.path, work.before, (DiskEntry("junit.xml", "file", 5),), cut=False)
        elif isinstance(work, TakeFile):
            content = TemporaryFile()  # noqa: SIM115 - it goes with what was taken
            content.write(b"hello")
            outcome = TakenFile(content, "junit.xml")
        return outcome  # type: ignore[no-any-return]

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


class FakePreviews:
    """Previews without VMs: each request connects to a port of this host, if a test says which."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.hosts: PreviewHosts | None = PreviewHosts("http://previews.example.net")
        self.port: PortSocket | None = None
        self.refusal: Exception | None = None

    @contextmanager
    def request(self, preview: Preview, seconds: float) -> Iterator[PortSocket]:
        if self.refusal is not None:
            raise self.refusal
        assert self.port is not None
        with self.port:
            yield self.port

    def end(self, preview: Preview, why: str) -> None:
        self._storage.previews.end(preview.id, why)


class FakeTerminals:
    """Terminals without VMs: rows, a record of what was typed, and what tests say that they show."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.refusal: Exception | None = None
        self.opened: list[tuple[int, bool, int, int]] = []
        self.typed = b""
        self.sizes: list[tuple[int, int]] = []
        self.looks: list[int] = []
        self.shows: list[Shown | Exception | Callable[[], None]] = [Shown(b"# ", 2), Shown(b"", 2, exit_code=0)]

    def open(
        self, build: Build, job: Job, caller: Caller, *, before: bool, columns: int, rows: int, budget_id: int | None
    ) -> ForkTerminal:
        if self.refusal is not None:
            raise self.refusal
        storage = self._storage
        with storage.transaction():
            lease = storage.leases.reserve_fork(
                str(uuid4()), "sandbox", "debian:12", Shape(), network=False, organization_id=build.organization_id
            )
            hold = storage.holds.begin_fork(lease.id, job.id, 1800, caller.user.email, budget_id)
            storage.terminals.add(hold, caller.user.id, caller.token_id, before=before)
        self.opened.append((job.id, before, columns, rows))
        made = storage.terminals.by_uuid(lease.uuid)
        assert made is not None
        return made

    def look(self, terminal: ForkTerminal, number: int) -> FakeLook:
        self._require(terminal)
        self.looks.append(number)
        return FakeLook(list(self.shows), len(self.typed))

    def type_in(self, terminal: ForkTerminal, number: int, data: bytes) -> int:
        self._require(terminal)
        self.typed += data[len(self.typed) - number :]
        return len(self.typed)

    def resize(self, terminal: ForkTerminal, columns: int, rows: int) -> None:
        self._require(terminal)
        self.sizes.append((columns, rows))

    def close(self, terminal: ForkTerminal, why: str = "it was closed") -> None:
        self._storage.terminals.note_end(terminal.hold_id, why)
        self._storage.holds.end(terminal.hold_id, HoldEnd.RELEASED)

    def gone(self, uuid: str) -> str | None:
        terminal = self._storage.terminals.by_uuid(uuid)
        return "it is unknown" if terminal is None else terminal.why_ended

    def _require(self, terminal: ForkTerminal) -> None:
        if (why := self.gone(terminal.uuid)) is not None:
            raise TerminalGone(why)


@dataclass(eq=False)
class FakeLook:
    shows: list[Shown | Exception | Callable[[], None]]
    typed: int
    replaced: bool = False

    def part(self, seconds: float) -> Shown | None:
        what = self.shows.pop(0)
        if isinstance(what, Exception):
            raise what
        if isinstance(what, Shown):
            return what
        what()
        return None

    def close(self) -> None:
        pass


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
