"""A real API over a real storage; a test's script plays the engine: it moves jobs and writes logs."""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from prometheus_client.registry import Collector

from api import HttpSettings, Server, create_app
from storage import Build, BuildState, Job, JobState, Lease, LedgerSource, Outcome, Shape, Storage

PATIENCE = 30.0

Script = Callable[["Stage"], None]


class TurnableClock:
    """A clock that stands still until a script advances it."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    def turn(self, seconds: float) -> None:
        self._seconds += seconds


class PlayedEngine:
    """A minimal engine: it signals each call, and a script does the rest."""

    draining = False

    def __init__(self) -> None:
        self.called = threading.Semaphore(0)
        self.watched = threading.Semaphore(0)
        self._changed: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def jobs_added(self, build_id: int) -> None:
        self.called.release()

    def render(self, build_id: int) -> None:
        raise AssertionError(f"build {build_id} came without its IR")

    def renders_wait(self) -> str | None:
        return None

    def discover(self, organization: str, slug: str, archive: bytes) -> None:
        raise AssertionError(f"nobody asked for the pipelines of {organization}")

    def cancel(self, build_id: int) -> None:
        raise AssertionError(f"nobody asked for the end of build {build_id}")

    @contextmanager
    def watch(self, job_uuid: str) -> Iterator[threading.Event]:
        self.watched.release()
        yield self._changed[job_uuid]
        self._changed[job_uuid].clear()

    def stir(self, job_uuid: str) -> None:
        self._changed[job_uuid].set()

    def collectors(self) -> tuple[Collector, ...]:
        return ()

    def pending_reason(self, job: Job) -> str | None:
        return "waiting for a VM" if job.state is JobState.SCHEDULED else None


@dataclass
class Stage:
    """A build, and the engine's operations on it, for scripts."""

    service: PlayedService
    build: Build

    def job(self, key: str) -> Job:
        jobs = self.service.storage.jobs.of_build(self.build.id)
        return next(job for job in jobs if job.step_key == key)

    def move(self, key: str, to: JobState) -> None:
        job = self.job(key)
        assert self.service.storage.jobs.move(job.id, job.state, to)
        self.service.engine.stir(job.uuid)

    def assign(self, key: str) -> Lease:
        storage = self.service.storage
        if self.job(key).state is JobState.PENDING:
            self.move(key, JobState.SCHEDULED)
        lease = storage.leases.assign(
            self.job(key).id,
            provider="sandbox",
            image=None,
            shape=Shape(),
            network=True,
            warm_lease_id=None,
            lease_uuid=str(uuid.uuid4()),
        )
        assert lease is not None
        assert storage.leases.active(lease.id)
        self.roll(BuildState.RUNNING)
        return lease

    def start(self, key: str) -> None:
        lease = self.service.storage.leases.of_job(self.job(key).id) or self.assign(key)
        assert self.service.storage.leases.start(lease.id, self.job(key).id)

    def write(self, key: str, output: str) -> None:
        job = self.job(key)
        writer = self.service.storage.logs.writer(self.build.uuid, job.uuid, max(1, job.attempt))
        writer.output(output.encode())
        writer.end()
        self.service.engine.stir(job.uuid)

    def finish(self, key: str, state: JobState = JobState.PASSED, exit_code: int | None = 0) -> None:
        job = self.job(key)
        lease = self.service.storage.leases.of_job(job.id)
        assert lease is not None
        assert self.service.storage.jobs.finish(
            job.id, JobState.RUNNING, state, Outcome(exit_code=exit_code), lease_id=lease.id, billable=True
        )
        self.service.engine.stir(job.uuid)

    def run(self, key: str, output: str, seconds: float = 1.0) -> None:
        """Take a job from its start to its end."""
        self.start(key)
        self.write(key, output)
        self.service.clock.turn(seconds)
        self.finish(key)

    def abandon(self) -> None:
        """Cancel everything that is not over, so that a command that follows the build ends, too."""
        for job in self.service.storage.jobs.of_build(self.build.id):
            if not job.state.terminal:
                self.move(job.step_key, JobState.CANCELED)
        self.roll(BuildState.CANCELED)

    def roll(self, state: BuildState) -> None:
        now = self.service.storage.builds.get(self.build.id)
        assert now is not None
        self.service.storage.builds.move(self.build.id, now.state, state)


@dataclass
class PlayedService:
    """The API's server, its storage, and a user with an API key."""

    storage: Storage
    engine: PlayedEngine
    clock: TurnableClock
    server: Server
    org: str
    token: str

    @property
    def url(self) -> str:
        return self.server.settings.url

    def pipelines(self) -> list[str]:
        """Return the slugs of the organization's pipelines."""
        organization = self.storage.organizations.by_slug(self.org)
        assert organization is not None
        return [each.slug for each in self.storage.pipelines.page(organization.id, 100, None).rows]

    @contextmanager
    def playing(self, script: Script) -> Iterator[None]:
        """Run the script for the next new build, in a thread; raise its exception here."""
        failure: list[BaseException] = []

        def play() -> None:
            if not self.engine.called.acquire(timeout=PATIENCE):
                failure.append(AssertionError("no build came"))
                return
            stage = Stage(self, self.storage.builds.unfinished()[-1])
            try:
                script(stage)
            except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
                failure.append(error)
                stage.abandon()

        thread = threading.Thread(target=play)
        thread.start()
        try:
            yield
        finally:
            thread.join(PATIENCE)
            if failure:
                raise failure[0]

    def restart(self) -> None:
        """Stop the API, and start it again at the same address."""
        settings = self.server.settings
        self.server.close()
        self.server = Server(settings)
        self.serve()

    def serve(self) -> None:
        self.server.start(create_app(self.storage, self.engine, self.server.settings, streams=self.server.streams))


@contextmanager
def played_service(directory: Path, **settings: Any) -> Iterator[PlayedService]:
    clock = TurnableClock()
    storage = Storage.create(directory / "state", clock)
    engine = PlayedEngine()
    server = Server(replace(HttpSettings(listen="127.0.0.1:0"), **settings))
    user = storage.users.create("ada@example.org", "Ada")
    _, token = storage.tokens.create_api_key(user.id, "tests")
    organization = storage.organizations.by_slug(user.personal_org_slug)
    assert organization is not None
    storage.ledger.append(organization.id, 1000, LedgerSource.ADMIN_GRANT, None)
    service = PlayedService(storage, engine, clock, server, user.personal_org_slug, token)
    service.serve()
    try:
        yield service
    finally:
        service.server.close()
        storage.close()
