"""The engine of the service inside of one command, for one project of one user."""

from __future__ import annotations

# First here, before there are threads: two that import it and its `abc` at once may each wait for the other.
import importlib.resources  # noqa: F401 - imported for others
import logging
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import actors
import storage as storages
from actors import render
from actors.vms import VmError
from ci_daemon.config import Config, load
from ci_daemon.host import journal
from ci_daemon.host.lock import AlreadyServed, served_by, serving
from ci_daemon.host.process import raise_open_file_limit
from ci_daemon.local.first_vm import FirstVm
from ci_daemon.local.folders import CacheUnusable
from ci_daemon.providers import open_images, open_providers
from ci_daemon.reload import engine_settings
from storage import BillingSettings, Clock, HoldEnd, NewPipeline, Pipeline, Storage, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from actors import Engine
    from actors.ir import Built
    from actors.render import Envelope
    from actors.vms import Images, Providers
    from ci_daemon.local.folders import LocalFolders
    from storage import Lease, Shape

ORGANIZATION = "local"
"""The organization of all local pipelines."""

_FREE = BillingSettings(cpu=0, memory_gb=0, disk_gb=0)
_NO_API = ("127.0.0.1", 0)
_LOG = "ci-daemon.log"
_POLL_SECONDS = 0.02
_LOCK_SECONDS = 0.2
_log = logging.getLogger(__name__)
_TIMINGS = actors.Timings(first_parked=0.25, housekeeping=1.0)
"""After the start the CPU is for the first job; other VMs and housekeeping wait."""


class LocalService:
    """A storage, VMs and an engine.

    While the caller packs and renders, other threads park the first VMs and start the engine. So Ctrl-C cannot leave a
    VM or an engine half made, either. The calls are for one thread. Ctrl-C may end any of them but `stop`.
    """

    def __init__(
        self,
        config: Config,
        storage: Storage,
        images: Images,
        providers: Providers,
        clock: Clock,
        parking: Executor,
        starting: Executor,
    ) -> None:
        """Park the first VM by ``parking``; ``starting`` is for the engine. Both keep the order of calls."""
        self.config = config
        self.storage = storage
        self.images = images
        self.providers = providers
        self._host = providers.named(config.pool.provider)
        self._clock = clock
        self._began = clock.now()
        self._settings = engine_settings(config, config.http.url, _NO_API)
        self._parking = parking
        self._starting = starting
        self._first_vm = FirstVm(storage, self._host, clock, parking)
        self._made: Future[Engine] | None = None
        self._started: Future[Engine] | None = None
        self._running: Engine | None = None
        self._left: Future[None] | None = None

    def prepare(self) -> Future[Engine]:
        """Make the engine in another thread, once: that imports most modules of a run."""
        if self._made is None:
            self._made = self._starting.submit(self._make_engine)
        return self._made

    def begin(self, then: Callable[[], None] = lambda: None) -> Future[Engine]:
        """Start the engine in another thread, with a VM for the first job, and then call ``then``; once."""
        if self._started is None:
            self._started = self._starting.submit(self._start, self.prepare(), self._first_vm.parked())
            self._starting.submit(then)
        return self._started

    @property
    def engine(self) -> Engine:
        """The running engine; the first use starts it."""
        return self.begin().result()

    def _make_engine(self) -> Engine:
        return actors.Engine(
            self.storage,
            self.providers,
            self.images,
            self._clock,
            self._settings,
            timings=_TIMINGS,
            connections=self._first_vm.connections,
        )

    def _start(self, made: Future[Engine], parked: Future[Lease | None]) -> Engine:
        """Start an engine, which takes over the VM that is parked by then."""
        wait((parked,))
        self._running = engine = made.result()
        engine.start(before=self._began)
        return engine

    def pipeline(self, slug: str, repository: str, branch: str) -> Pipeline:
        """Return the pipeline with a slug, made where it is missing."""
        users, pipelines = self.storage.users, self.storage.pipelines
        owner = users.by_email(ORGANIZATION) or users.create(ORGANIZATION, "")
        organization = self.storage.organizations.by_slug(owner.personal_org_slug)
        assert organization is not None  # noqa: S101 - the user's own, which nobody closes
        found = pipelines.by_slug(organization.id, slug)
        return found or pipelines.create(organization.id, NewPipeline(slug, slug, repository, branch))

    def discover(
        self,
        slug: str,
        archive: bytes,
        organization: str = ORGANIZATION,
        *,
        built: Built | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Envelope:
        """Render the pipelines of an archive, in a VM that is parked if the engine has not taken it over.

        Files are told what is ``built``. ``meanwhile`` is called when the render has its VM. The VM is destroyed in
        another thread.

        Raises RenderFailed and VmError.
        """

        def claim(image: str, shape: Shape) -> Lease | None:
            claimed = self._first_vm.claim(image, shape) if self._started is None else None
            meanwhile()
            return claimed

        renderer = render.ArchiveRenderer(
            self.storage,
            self._host,
            self.images,
            self._clock,
            self._settings.render,
            self._settings.jobs.min_free_bytes,
            claim_parked=claim,
            connections=self._first_vm.connections,
        )
        leaving = ExitStack()
        try:
            return renderer.discover(render.SourceArchive(organization, slug, archive, built), leaving)
        finally:
            self._left = self._parking.submit(leaving.close)

    def cancel(self, build_id: int) -> None:
        """Cancel a build; return soon, while its commands are being ended."""
        with suppress(actors.EngineBusy):  # it is canceled all the same
            self.engine.cancel(build_id)

    def settle(self) -> None:
        """Wait until no job has a VM but those on hold."""
        if self._started is None:
            return
        self.engine.drain()
        while any(map(self._at_work, self.storage.leases.live())):
            time.sleep(_POLL_SECONDS)

    def _at_work(self, lease: Lease) -> bool:
        return lease.job_id is not None and self.storage.holds.of_lease(lease.id) is None

    def stop(self) -> None:
        """Stop the engine, if it was started, in the thread that starts it.

        This also stops an engine whose start was under way when Ctrl-C ended `begin`.
        """
        if self._left is not None:
            wait((self._left,))
        self._starting.submit(self._stop).result()

    def _stop(self) -> None:
        """Stop the engine. The VMs end first, also those being made: the actors wait for their work with them."""
        if self._running is not None:
            self._running.drain()
            _destroy_vms(self.providers)
            self._running.stop()


def local_config(folders: LocalFolders, tree: Path, environ: Mapping[str, str]) -> Config:
    """Return the configuration of local builds: the defaults and the environment, without files.

    Raises ConfigError.
    """
    state = folders.project(tree)
    config = load(state, environ, system_file=state / "ci-daemon.toml")
    images = replace(config.images, dir=config.images.dir or folders.images)
    return replace(config, images=images, billing=_FREE)


@contextmanager
def local_service(directory: Path, config: Config, busy: Callable[[int | None], None]) -> Iterator[LocalService]:
    """Run an engine over a state directory, which is made if it is missing; at the end no VM is left.

    ``busy`` is called with the id of another process that has the directory, before the wait for its end. Raises
    NoSubIds, CacheUnusable, and what opening a storage raises; VmError at the end if a VM is left.
    """
    with ExitStack() as stack:
        directory.mkdir(mode=0o700, exist_ok=True)
        stack.enter_context(_held(directory, busy))
        journal.set_up(
            config.journal, actors.LogContextFilter(), stream=stack.enter_context((directory / _LOG).open("w"))
        )
        stack.callback(journal.silence)
        raise_open_file_limit()
        clock = SystemClock()
        storage = _open_storage(directory, config)
        stack.callback(storage.close)
        images = open_images(directory, config)
        providers = open_providers(directory, config, images, clock)
        stack.callback(providers.close)
        _end_leases(storage, providers)  # of a command that was killed
        stack.callback(_leave_nothing, storage, providers)
        parking = stack.enter_context(ThreadPoolExecutor(1, "park"))
        starting = stack.enter_context(ThreadPoolExecutor(1, "start"))
        service = LocalService(config, storage, images, providers, clock, parking, starting)
        stack.callback(service.stop)
        _cancel_unfinished(storage)
        yield service
        service.settle()


def _open_storage(directory: Path, config: Config) -> Storage:
    """Open the storage of a project, made if it is missing. Raises CacheUnusable."""
    clock, limit, strict = SystemClock(), config.jobs.log_limit_bytes, config.jobs.strict_shell
    with suppress(storages.AlreadyInitialized):
        return Storage.create(directory, clock, billing=_FREE, log_limit=limit, strict_shell=strict)
    try:
        return Storage.open(directory, clock, billing=_FREE, log_limit=limit, strict_shell=strict)
    except storages.SchemaTooNew as error:
        message = f"a newer release ran this project: run that one, or remove its cached steps and logs, {directory}"
        raise CacheUnusable(message) from error


def _cancel_unfinished(storage: Storage) -> None:
    """Cancel the builds of a command that was killed."""
    for build in storage.builds.unfinished():
        storage.builds.request_cancel(build.id)


@contextmanager
def _held(directory: Path, busy: Callable[[int | None], None]) -> Iterator[None]:
    """Hold the lock of a state directory, and wait for it if another process has it."""
    with ExitStack() as stack:
        try:
            stack.enter_context(serving(directory))
        except AlreadyServed:
            other = served_by(directory)
            busy(None if other is None else other.pid)
            stack.enter_context(_waited(directory))
        yield


@contextmanager
def _waited(directory: Path) -> Iterator[None]:
    while served_by(directory) is not None:
        time.sleep(_LOCK_SECONDS)
    with _held(directory, lambda _: None):  # another waiter may have been faster
        yield


def _leave_nothing(storage: Storage, providers: Providers) -> None:
    """End all VMs and leases. Raises VmError if a VM is left."""
    if left := _end_leases(storage, providers):
        message = f"a part of a VM is left, which the next `ci-daemon run` removes: {'; '.join(map(str, left))}"
        raise VmError(message)


def _end_leases(storage: Storage, providers: Providers) -> list[VmError]:
    """Destroy all VMs and end their leases; return why some are left. The engine does not run."""
    for hold in storage.holds.open():
        storage.holds.end(hold.id, HoldEnd.RELEASED)
    left = _destroy_vms(providers)
    for lease in storage.leases.live():
        storage.leases.end(lease.id)
    return left


def _destroy_vms(providers: Providers) -> list[VmError]:
    """Destroy all VMs; return why some are left."""
    left = []
    for provider in providers:
        for vm in provider.list():
            try:
                provider.destroy(vm)
            except VmError as error:  # this command or the next one tries again
                _log.warning("VM %s cannot be destroyed: %s", vm, error)
                left.append(error)
    return left
