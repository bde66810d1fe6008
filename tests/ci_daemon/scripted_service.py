"""A real API over a real storage with a fake engine; a test's script moves jobs and writes logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actors.source_hosts import RepositoryConnector
from api import HttpSettings, Parts, Server, create_app
from storage import Build, BuildState, Job, JobState, Lease, Storage
from tests import records
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine
from tests.forges.connected import forges
from tests.forges.server import LocalHost
from tests.state import new_storage

TIMEOUT_SECONDS = 30.0

Script = Callable[["ScriptedBuild"], None]


@dataclass
class ScriptedBuild:
    """A build, and the engine's operations on it, for scripts."""

    service: ScriptedService
    build: Build

    def job(self, key: str) -> Job:
        jobs = self.service.storage.jobs.of_build(self.build.id)
        return next(job for job in jobs if job.step_key == key)

    def move(self, key: str, to: JobState) -> None:
        job = self.job(key)
        assert self.service.storage.jobs.move(job.id, job.state, to)
        self.service.engine.log_changed(job.uuid)

    def assign(self, key: str) -> Lease:
        storage = self.service.storage
        if self.job(key).state is JobState.PENDING:
            self.move(key, JobState.SCHEDULED)
        lease = records.assigned(storage, self.job(key))
        assert storage.leases.active(lease.id)
        self.move_build(BuildState.RUNNING)
        return lease

    def start(self, key: str) -> None:
        lease = self.service.storage.leases.of_job(self.job(key).id) or self.assign(key)
        assert self.service.storage.leases.start(lease.id, self.job(key).id)

    def write(self, key: str, output: str) -> None:
        job = self.job(key)
        writer = self.service.storage.logs.writer(self.build.uuid, job.uuid, max(1, job.attempt))
        writer.output(output.encode())
        writer.end()
        self.service.engine.log_changed(job.uuid)

    def finish(self, key: str, state: JobState = JobState.PASSED, exit_code: int | None = 0) -> None:
        job = self.job(key)
        lease = self.service.storage.leases.of_job(job.id)
        assert lease is not None
        records.finish(self.service.storage, job, lease, state, exit_code=exit_code)
        self.service.engine.log_changed(job.uuid)

    def run(self, key: str, output: str, seconds: float = 1.0) -> None:
        """Take a job from its start to its end."""
        self.start(key)
        self.write(key, output)
        self.service.clock.advance(seconds)
        self.finish(key)

    def cancel_rest(self) -> None:
        """Cancel everything that is not over, so that a command that follows the build ends, too."""
        for job in self.service.storage.jobs.of_build(self.build.id):
            if not job.state.terminal:
                self.move(job.step_key, JobState.CANCELED)
        self.move_build(BuildState.CANCELED)

    def move_build(self, state: BuildState) -> None:
        now = self.service.storage.builds.get(self.build.id)
        assert now is not None
        self.service.storage.builds.move(self.build.id, now.state, state)


@dataclass
class ScriptedService:
    """The API's server, its storage, and a user with an API key."""

    storage: Storage
    engine: FakeEngine
    clock: ManualClock
    server: Server
    org: str
    token: str
    forge: LocalHost | None = None

    @property
    def url(self) -> str:
        return self.server.settings.url

    def pipelines(self) -> list[str]:
        """Return the slugs of the organization's pipelines."""
        organization = self.storage.organizations.by_slug(self.org)
        assert organization is not None
        return [each.slug for each in self.storage.pipelines.page(organization.id, 100, None).rows]

    @contextmanager
    def scripted(self, script: Script) -> Iterator[None]:
        """Run the script for the next new build, in a thread; raise its exception here."""
        failure: list[BaseException] = []

        def run() -> None:
            if not self.engine.builds_added.acquire(timeout=TIMEOUT_SECONDS):
                failure.append(AssertionError("no build came"))
                return
            build = ScriptedBuild(self, self.storage.builds.unfinished()[-1])
            try:
                script(build)
            except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
                failure.append(error)
                build.cancel_rest()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            thread.join(TIMEOUT_SECONDS)
            if failure:
                raise failure[0]

    def restart(self) -> None:
        """Stop the API, and start it again at the same address."""
        settings = self.server.settings
        self.server.close()
        self.server = Server(settings)
        self.serve()

    def serve(self) -> None:
        hosts = {} if self.forge is None else forges(self.storage, self.forge)
        connector = RepositoryConnector(self.storage, hosts, self.url)
        settings, parts = self.server.settings, Parts(slots=self.server.slots, connector=lambda: connector)
        self.server.start(create_app(self.storage, self.engine, settings, parts))


@contextmanager
def scripted_service(directory: Path, **settings: Any) -> Iterator[ScriptedService]:
    clock = ManualClock()
    storage = new_storage(directory / "state", clock)
    server = Server(replace(HttpSettings(listen="127.0.0.1:0"), **settings))
    owner = records.new_owner(storage, cents=1000)
    service = ScriptedService(storage, FakeEngine(storage, None), clock, server, owner.organization.slug, owner.token)
    service.serve()
    try:
        yield service
    finally:
        service.server.close()
        storage.close()
