"""A live engine over real storage and real VMs, and builds that are stored directly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pykka
import pytest

from actors import Engine, JobSettings, PoolSettings, Settings, plan_jobs
from actors.ir import Limits
from actors.vms import Images, ImageStore, SandboxProvider
from actors.vms.images import OnDemand
from actors.vms.sandbox.userns import IdMap
from storage import Build, Job, NewBuild, NewPipeline, Pipeline, Storage, SystemClock

T = TypeVar("T")


class Host:
    """A state directory with its VMs, and one engine at a time over it."""

    def __init__(
        self,
        directory: Path,
        images_dir: Path,
        hold_seconds: int = 600,
        on_demand: OnDemand | None = None,
        min_free_disk_gb: float = 1.0,
        **pool: Any,
    ) -> None:
        self.settings = Settings(
            pool=PoolSettings(**{"max_vms": 4, "warm": 0} | pool),
            jobs=JobSettings(kill_grace=1.0, hold_seconds=hold_seconds, min_free_disk_gb=min_free_disk_gb),
        )
        self.clock = SystemClock()
        self.storage = Storage.create(directory / "state", self.clock)
        idmap = IdMap.of_caller()
        self.images = Images(ImageStore(images_dir, idmap), "debian:12", {}, on_demand)
        self.provider = SandboxProvider(directory / "state" / "sandbox", self.images, idmap, self.clock)
        self.engine = self._engine()
        user = self.storage.users.create("ada@example.org", "Ada")
        organization = self.storage.organizations.by_slug(user.personal_org_slug)
        assert organization is not None
        self.pipeline: Pipeline = self.storage.pipelines.create(
            organization.id, NewPipeline("demo", "Demo", "https://example.org/a/demo.git", "main")
        )

    def _engine(self) -> Engine:
        return Engine(self.storage, self.provider, self.images, self.clock, self.settings)

    def restart(self) -> None:
        """Replace the engine by a new one, as a new process would."""
        self.engine.stop()
        self.engine = self._engine()
        self.engine.start()

    def other_pipeline(self, name: str = "Other") -> Pipeline:
        """Make a pipeline of another organization."""
        owner = self.storage.users.create(f"{name}@example.org", name)
        organization = self.storage.organizations.create(name, "", owner.id)
        return self.storage.pipelines.create(organization.id, NewPipeline("demo", "Demo", "r", "main"))

    def build(self, ir: str, pipeline: Pipeline | None = None, **fields: Any) -> Build:
        """Store a build and tell the engine."""
        build = self.plant(ir, pipeline, **fields)
        self.engine.jobs_added(build.id)
        return build

    def plant(self, ir: str, pipeline: Pipeline | None = None, **fields: Any) -> Build:
        """Store a build without telling the engine."""
        planned = plan_jobs(ir, Limits())
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
        until(lambda: True if text in self.log(build, key) else None, f"{text!r} in the log")

    def close(self) -> None:
        """Stop the engine and destroy all VMs."""
        self.engine.stop()
        for vm in self.provider.list():
            self.provider.destroy(vm)
        self.storage.close()


def until(look: Callable[[], T | None], what: str, seconds: float = 30.0) -> T:
    """Poll until ``look`` returns a value, and return it; fail with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)
    return found


@pytest.fixture
def host(tmp_path: Path, images_dir: Path) -> Iterator[Host]:
    """A host with a running engine; afterwards none of its VMs or actors is left."""
    host = Host(tmp_path, images_dir)
    host.engine.start()
    try:
        yield host
    finally:
        host.close()
    assert pykka.ActorRegistry.get_all() == []
