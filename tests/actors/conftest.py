"""A live engine over real storage and VMs in memory or sandboxes, and builds stored directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
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
    PollerComposition,
    PoolSettings,
    PreviewSettings,
    PrometheusMetrics,
    RetentionSettings,
    TerminalSettings,
    retry,
)
from actors.cleanup.reaper import Reaper
from actors.composition import ChildSpec, Composition
from actors.ir import IrSettings, load
from actors.mail import MailSettings
from actors.messages import Reschedule
from actors.notifications import NotificationSettings
from actors.parts import VmParts
from actors.render import RenderSettings
from actors.render.discovery import Discovery
from actors.render.vm import WaitingVm
from actors.repositories import RepositorySettings, SourceSettings
from actors.settings import LiveSettings, Timings
from actors.source_hosts import PlainGit
from actors.vms import Images, ImageSettings, ImageStore, Provider, Providers, SandboxProvider
from actors.vms.host.ids import IdMap
from actors.vms.images.image import Image, folder_of
from storage import (
    GIT,
    BillingSettings,
    Build,
    BuildBusy,
    Clock,
    Job,
    JobState,
    NewBuild,
    NewPipeline,
    Pipeline,
    Storage,
    SystemClock,
)
from tests.clock import ManualClock
from tests.memory.provider import MemoryProvider, only
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
        ir=IrSettings(),
        mail=MailSettings(),
        notifications=NotificationSettings(),
        repositories=RepositorySettings(),
        source=SourceSettings(),
        terminals=TerminalSettings(),
        previews=PreviewSettings(),
        base_url="http://ci.example.org",
        api_address=("127.0.0.1", 9),
    )


def _document(build: Build) -> dict[str, object]:
    return {"number": build.number, "state": build.state}


_NOT_STARTED = {JobState.PENDING, JobState.SCHEDULED, JobState.ASSIGNED}


def discovery_in(
    storage: Storage, providers: Providers, images: Images, clock: Clock, live_settings: LiveSettings
) -> Discovery:
    """Return a discovery of pipelines that tells nobody of its renders."""
    parts = VmParts(storage=storage, providers=providers, images=images, clock=clock, live_settings=live_settings)
    return Discovery(parts, waiting=WaitingVm(parts))


class Host:
    """A state directory with its VMs, and one engine at a time over it."""

    def __init__(
        self,
        directory: Path,
        provider: Provider,
        images: Images,
        hold_seconds: int = 600,
        min_free_disk_gb: float = 1.0,
        timings: Timings | None = None,
        billing: BillingSettings | None = None,
        busy_seconds: float = 10.0,
        *,
        log_wait_seconds: float = 120.0,
        others: Iterable[Provider] = (),
        **pool: Any,
    ) -> None:
        self.settings = settings_with(
            PoolSettings(**{"max_vms": 4, "parked": 0} | pool),
            JobSettings(
                kill_grace=1.0,
                hold_seconds=hold_seconds,
                min_free_disk_gb=min_free_disk_gb,
                log_wait_seconds=log_wait_seconds,
            ),
        )
        self.timings = timings
        self.clock = SystemClock()
        database = database_in(directory / "state", self.clock, busy_seconds)
        self.storage = new_storage(directory / "state", self.clock, billing, database)
        self._opened = [self.storage]
        self.images = images
        self.provider = provider
        self.providers = only(provider, *others)
        self.engine = self.new_engine()
        self.pipeline: Pipeline = self.storage.pipelines.create(
            new_owner(self.storage).organization.id,
            NewPipeline("demo", "Demo", "https://example.org/a/demo.git", "main"),
        )

    def new_engine(self) -> Engine:
        """Return another engine over the same state, as a new process would make it."""
        return Engine(
            self.storage,
            self.providers,
            self.images,
            self.clock,
            self.settings,
            self.pollers,
            metrics=PrometheusMetrics(),
            timings=self.timings,
        )

    def pollers(self, parts: Composition) -> tuple[ChildSpec, ...]:
        """Return the actors that look at the storage each second."""
        return PollerComposition(parts, {GIT: PlainGit(self.storage)}, _document).pollers

    def reaper(self, clock: Clock | None = None) -> Reaper:
        """Return a reaper of the engine's pool; with another clock, which was never set, if one is given."""
        storage = self.storage
        if clock is not None:
            storage = Storage.open(self.storage.directory, clock)
            self._opened.append(storage)
        return Reaper(
            VmParts(
                storage=storage,
                providers=self.providers,
                images=self.images,
                clock=clock or self.clock,
                live_settings=LiveSettings(self.settings),
                addresses=self.engine.addresses,
            )
        )

    def restart(self) -> None:
        """Replace the engine by a new one."""
        self.engine.stop()
        self.engine = self.new_engine()
        self.engine.start()

    def drain(self) -> None:
        """Drain the host, and wait until the lease pool has noticed: it may be granting VMs just now."""
        self.storage.switches.drain()
        self.engine.addresses.pool.ask(Reschedule())

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
        planned = load(ir, IrSettings())
        new = NewBuild(
            fields.pop("branch", "main"),
            "0" * 40,
            pipeline_ir=ir,
            timeout_seconds=planned.timeout_seconds,
            concurrency=planned.concurrency,
            **fields,
        )
        return self.storage.builds.create(pipeline or self.pipeline, new, planned.jobs)

    def finish(self, build: Build, seconds: float = 60.0) -> Build:
        """Wait for a build's end."""

        def look() -> Build | None:
            now = self.storage.builds.get(build.id)
            return now if now is not None and now.state.terminal else None

        return until(look, "the build's end", seconds)

    def retry(self, build: Build, key: str | None = None) -> Build:
        """Retry a finished build, or one of its jobs, as soon as its last VM is gone; return it as it is now.

        The engine is not told.
        """

        def begun() -> bool:
            now = self.storage.builds.get(build.id)
            assert now is not None
            with suppress(BuildBusy):
                return retry(self.storage, now, None if key is None else self.job(build, key))
            return False

        until(begun, "the retry")
        now = self.storage.builds.get(build.id)
        assert now is not None
        return now

    def job(self, build: Build, key: str = "only") -> Job:
        """Return a job as it is now."""
        return next(job for job in self.storage.jobs.of_build(build.id) if job.step_key == key)

    def log(self, build: Build, key: str = "only") -> bytes:
        """Return a job's log as it is now."""
        log = self.storage.logs.reader(build.uuid, self.job(build, key).uuid)
        return log.read(0, log.size())

    def notes(self, build: Build, text: bytes, key: str = "only") -> None:
        """Wait until a job's log holds a text."""
        until(lambda: text in self.log(build, key), f"{text!r} in the log")

    def says(self, build: Build, text: bytes, key: str = "only") -> None:
        """Wait until a job's command has written a text, and its start is on record, which may come later."""
        self.notes(build, text, key)
        until(lambda: self.job(build, key).state not in _NOT_STARTED, "the start on record")

    def close(self) -> None:
        """Stop the engine and destroy all VMs."""
        self.engine.stop()
        for provider in self.providers:
            for vm in provider.list():
                provider.destroy(vm)
        for storage in self._opened:
            storage.close()


@pytest.fixture
def clock() -> ManualClock:
    """The clock of a test without a host; it stands still."""
    return ManualClock()


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    """The storage of a test without a host."""
    storage = new_storage(tmp_path / "state", clock)
    yield storage
    storage.close()


@pytest.fixture
def timings() -> Timings:
    """The waits of the host's engine."""
    return Timings()


@pytest.fixture
def billing() -> BillingSettings:
    """The prices of the host."""
    return BillingSettings()


def real_images(folder: Path, on_demand: ImageSettings | None = None) -> Images:
    """Return the images of a folder; the default is debian:12."""
    return Images(ImageStore(folder, IdMap.of_caller()), "debian:12", {}, on_demand)


def sandboxes(directory: Path, images: Images) -> SandboxProvider:
    """Return a provider of sandboxes for the host in a directory."""
    return SandboxProvider(directory / "state" / "sandbox", images, IdMap.of_caller(), SystemClock())


@pytest.fixture
def images(request: pytest.FixtureRequest, tmp_path: Path) -> Images:
    """The host's images: real ones for a test that is marked ``sandbox``, else for VMs in memory."""
    if request.node.get_closest_marker("sandbox"):
        return real_images(request.getfixturevalue("images_dir"))
    return images_in_memory(tmp_path / "images")


def images_in_memory(folder: Path) -> Images:
    """Make an image store for VMs in memory, with a debian:12."""
    add_image(folder, "debian:12", {})
    return Images(ImageStore(folder, IdMap((), ())), "debian:12", {})


def add_image(folder: Path, name: str, environment: Mapping[str, str]) -> None:
    """Add an image without a tree to a store: VMs in memory need no files of it."""
    image = folder / folder_of(name)
    image.mkdir(parents=True)
    Image(name, 0, "", SystemClock().now(), environment).write(image)


@pytest.fixture
def provider(request: pytest.FixtureRequest, tmp_path: Path, images: Images) -> Provider:
    """The host's VMs: sandboxes for a test that is marked ``sandbox``, else VMs in memory."""
    return sandboxes(tmp_path, images) if request.node.get_closest_marker("sandbox") else MemoryProvider(images)


@pytest.fixture
def host(
    tmp_path: Path, provider: Provider, images: Images, timings: Timings, billing: BillingSettings
) -> Iterator[Host]:
    """A host with a running engine; afterwards none of its VMs or actors is left."""
    host = Host(tmp_path, provider, images, timings=timings, billing=billing)
    host.engine.start()
    try:
        yield host
    finally:
        host.close()
    assert pykka.ActorRegistry.get_all() == []
