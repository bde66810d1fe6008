"""A live engine over real storage and real VMs, and builds that are stored directly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pykka
import pytest

from actors import (
    ArtifactSettings,
    CacheSettings,
    Engine,
    EngineSettings,
    JobSettings,
    PoolSettings,
    RetentionSettings,
)
from actors.cleanup.host_disk import HostDisk
from actors.cleanup.reaper import Reaper
from actors.configuration import Configuration
from actors.ir import IrLimits, load
from actors.render import RenderSettings
from actors.timings import Timings
from actors.vms import Images, ImageStore, SandboxProvider
from actors.vms.images import PullPolicy
from actors.vms.sandbox.userns import IdMap
from storage import BillingSettings, Build, Clock, Job, NewBuild, NewPipeline, Pipeline, SystemClock
from tests.records import new_owner
from tests.state import database_in, new_storage
from tests.waiting import until


def settings_with(pool: PoolSettings, jobs: JobSettings) -> EngineSettings:
    """Return the configuration of a live service with these sections; no API listens at its address."""
    return EngineSettings(
        pool=pool,
        jobs=jobs,
        retention=RetentionSettings(),
        cache=CacheSettings(),
        artifacts=ArtifactSettings(),
        render=RenderSettings(),
        limits=IrLimits(),
        base_url="http://ci.example.org",
        api_address=("127.0.0.1", 9),
    )


class Host:
    """A state directory with its VMs, and one engine at a time over it."""

    def __init__(
        self,
        directory: Path,
        images_dir: Path,
        hold_seconds: int = 600,
        on_demand: PullPolicy | None = None,
        min_free_disk_gb: float = 1.0,
        timings: Timings | None = None,
        billing: BillingSettings | None = None,
        busy_seconds: float = 10.0,
        **pool: Any,
    ) -> None:
        self.settings = settings_with(
            PoolSettings(**{"max_vms": 4, "warm": 0} | pool),
            JobSettings(kill_grace=1.0, hold_seconds=hold_seconds, min_free_disk_gb=min_free_disk_gb),
        )
        self.timings = timings
        self.clock = SystemClock()
        database = database_in(directory / "state", self.clock, busy_seconds)
        self.storage = new_storage(directory / "state", self.clock, billing, database)
        idmap = IdMap.of_caller()
        self.images = Images(ImageStore(images_dir, idmap), "debian:12", {}, on_demand)
        self.provider = SandboxProvider(directory / "state" / "sandbox", self.images, idmap, self.clock)
        self.engine = self.new_engine()
        self.pipeline: Pipeline = self.storage.pipelines.create(
            new_owner(self.storage).organization.id,
            NewPipeline("demo", "Demo", "https://example.org/a/demo.git", "main"),
        )

    def new_engine(self) -> Engine:
        """Return another engine over the same state, as a new process would make it."""
        return Engine(self.storage, self.provider, self.images, self.clock, self.settings, self.timings)

    def reaper(self, clock: Clock | None = None) -> Reaper:
        """Return a reaper of the engine's pool, with another clock if one is given."""
        return Reaper(
            storage=self.storage,
            provider=self.provider,
            images=self.images,
            clock=clock or self.clock,
            host_disk=HostDisk(),
            configuration=Configuration(self.settings),
            pool=self.engine.addresses.pool,
        )

    def restart(self) -> None:
        """Replace the engine by a new one."""
        self.engine.stop()
        self.engine = self.new_engine()
        self.engine.start()

    def other_pipeline(self, name: str = "Other") -> Pipeline:
        """Make a pipeline of another organization."""
        owner = self.storage.users.create(f"{name}@example.org", name)
        organization = self.storage.organizations.create(name, "", owner.id)
        return self.storage.pipelines.create(organization.id, NewPipeline("demo", "Demo", "r", "main"))

    def build(self, ir: str, pipeline: Pipeline | None = None, **fields: Any) -> Build:
        """Store a build and tell the engine."""
        build = self.insert(ir, pipeline, **fields)
        self.engine.jobs_added(build.id)
        return build

    def insert(self, ir: str, pipeline: Pipeline | None = None, **fields: Any) -> Build:
        """Store a build without telling the engine."""
        planned = load(ir, IrLimits())
        new = NewBuild("main", "0" * 40, pipeline_ir=ir, timeout_seconds=planned.timeout_seconds, **fields)
        return self.storage.builds.create(pipeline or self.pipeline, new, planned.jobs)

    def finish(self, build: Build, seconds: float = 60.0) -> Build:
        """Wait for a build's end."""

        def look() -> Build | None:
            now = self.storage.builds.get(build.id)
            return now if now is not None and now.state.terminal else None

        return until(look, "the build's end", seconds)

    def job(self, build: Build, key: str = "only") -> Job:
        """Return a job as it is now."""
        return next(job for job in self.storage.jobs.of_build(build.id) if job.step_key == key)

    def log(self, build: Build, key: str = "only") -> bytes:
        """Return a job's log as it is now."""
        log = self.storage.logs.reader(build.uuid, self.job(build, key).uuid)
        return log.read(0, log.size())

    def says(self, build: Build, text: bytes, key: str = "only") -> None:
        """Wait until a job's log holds a text."""
        until(lambda: text in self.log(build, key), f"{text!r} in the log")

    def close(self) -> None:
        """Stop the engine and destroy all VMs."""
        self.engine.stop()
        for vm in self.provider.list():
            self.provider.destroy(vm)
        self.storage.close()


@pytest.fixture
def timings() -> Timings:
    """The waits of the host's engine."""
    return Timings()


@pytest.fixture
def billing() -> BillingSettings:
    """The prices of the host."""
    return BillingSettings()


@pytest.fixture
def host(tmp_path: Path, images_dir: Path, timings: Timings, billing: BillingSettings) -> Iterator[Host]:
    """A host with a running engine; afterwards none of its VMs or actors is left."""
    host = Host(tmp_path, images_dir, timings=timings, billing=billing)
    host.engine.start()
    try:
        yield host
    finally:
        host.close()
    assert pykka.ActorRegistry.get_all() == []
