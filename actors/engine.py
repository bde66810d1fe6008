"""The live service as the API and the process use it: a few calls, none of which waits for a build."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TypeVar

import pykka

from actors import forks
from actors.composition import Composition
from actors.messages import BuildCreated, CancelBuild, Drain, GateDue, PollStorage, Reschedule, ResyncLeases
from actors.metrics import EngineMetrics
from actors.render.discovery import Shares
from actors.root import RootSupervisor
from actors.scheduling.parked_vms import ParkedConnections
from actors.scheduling.pending_reason import admission_block
from actors.settings import EngineSettings, LiveSettings, Timings
from actors.supervision import spawn
from actors.vms import VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from prometheus_client.registry import Collector

    from actors.addresses import Addresses
    from actors.composition import ChildSpec
    from actors.forks import ForkWork, Previews, Terminals
    from actors.log_watchers import Watch
    from actors.render.envelope import Envelope
    from actors.vms import Images, Providers
    from storage import Build, Clock, Job, Storage

T = TypeVar("T")

_CANCEL_TIMEOUT = 5.0
_DISCOVERY_TIMEOUT = 120.0
_RUNS, _RUNS_OF_ONE = 8, 4
"""Runs on forks at once, of all organizations and of one: each holds a thread."""

_RUN_TIMEOUT = 10.0


class EngineBusy(Exception):
    """The actors did not answer in time, or no VM is free. A cancel is in the storage and will be done."""


def _no_pollers(_parts: Composition) -> tuple[ChildSpec, ...]:
    return ()


class Engine:
    """Starts and stops the actors and speaks to them. Every method may be called from any thread.

    Args:
        storage: the open storage; the caller closes it after `stop`.
        providers: make the VMs.
        images: resolves, pulls and removes images.
        clock: the time.
        settings: the settings to begin with.
        pollers: makes the actors that poll the storage; without it nothing is sent, fetched or scheduled.
        metrics: counts events; without it none is counted.
        timings: the waits, which tests shorten.
        connections: those to VMs that are parked already.
    """

    def __init__(
        self,
        storage: Storage,
        providers: Providers,
        images: Images,
        clock: Clock,
        settings: EngineSettings,
        pollers: Callable[[Composition], tuple[ChildSpec, ...]] = _no_pollers,
        *,
        metrics: EngineMetrics | None = None,
        timings: Timings | None = None,
        connections: ParkedConnections | None = None,
    ) -> None:
        self._live_settings = LiveSettings(settings)
        self._composition = Composition(
            storage=storage,
            providers=providers,
            images=images,
            clock=clock,
            live_settings=self._live_settings,
            metrics=metrics or EngineMetrics(),
            timings=timings or Timings(),
            make_pollers=pollers,
            connections=connections or ParkedConnections(),
        )
        self._discovering = Shares(settings.render.vms, settings.render.vms_of_one)
        self._forking = Shares(_RUNS, _RUNS_OF_ONE)

    @property
    def draining(self) -> bool:
        """True once the service grants no more leases, because it is about to stop."""
        return self._composition.draining.is_set()

    @property
    def broken(self) -> threading.Event:
        """Set when actors die faster than restarting them helps; the process should end then."""
        return self._composition.broken

    @property
    def addresses(self) -> Addresses:
        """The addresses of the long-lived actors."""
        return self._composition.addresses

    def start(self, before: datetime | None = None) -> None:
        """Start the actors and attach to jobs that an earlier process left running; return when done.

        If this process packs and renders already, it began to do so at ``before``.
        """
        self._composition.timer.start()
        self._composition.reaper.remove_orphans(before)
        spawn(RootSupervisor, self._composition).ask(Reschedule())
        self._composition.terminals.start()
        self._composition.previews.start()
        with suppress(pykka.ActorDeadError):  # the root then starts another pool
            self._composition.addresses.pool.ask(Reschedule())  # by then it has looked at every lease

    @property
    def settings(self) -> EngineSettings:
        """The settings in force."""
        return self._live_settings.now

    def reconfigure(self, settings: EngineSettings) -> None:
        """Apply new settings. Running attempts keep the time-outs and limits that they began with."""
        self._live_settings.now = settings
        self._composition.addresses.pool.post(ResyncLeases())

    @property
    def sends_mail(self) -> bool:
        """True if a mail server is configured."""
        return bool(self._live_settings.now.mail.host)

    def drain(self) -> None:
        """Grant no more leases. Running jobs go on."""
        self._composition.draining.set()
        self._composition.addresses.pool.post(Drain())
        self._composition.addresses.renders.post(Drain())
        self._composition.addresses.schedules.post(Drain())
        self._composition.addresses.culprits.post(Drain())
        self._composition.addresses.sources.post(Drain())
        self._composition.addresses.proofs.post(Drain())

    def stop(self) -> None:
        """Stop the actors, last started first. VMs and their commands run on for the next process."""
        self.drain()
        self._composition.terminals.stop()
        self._composition.previews.stop()
        self._composition.timer.stop()
        self._composition.addresses.root.stop()

    def jobs_added(self, build_id: int, *, need_vms: bool = False) -> None:
        """Announce that a build and its jobs are in the storage. Returns at once.

        If the build is new and its jobs ``need_vms``, nobody has to ask what else it may go on with.
        """
        if need_vms:
            self._composition.addresses.pool.post(Reschedule())
        else:
            self._composition.addresses.root.post(BuildCreated(build_id))

    def gate_decided(self, build_id: int) -> None:
        """Announce that the answer to a gate of a build is in the storage. Returns at once."""
        self._composition.addresses.root.post(GateDue(build_id))

    def render(self, build_id: int) -> None:
        """Announce a build that needs rendering; plan it here if the render of its archive is cached."""
        build = self._composition.storage.builds.get(build_id)
        if build is not None and not self._composition.recorder.plan_from_cache(build):
            self._composition.addresses.renders.post(Reschedule())
            self._composition.addresses.sources.post(PollStorage())

    def deliveries_added(self) -> None:
        """Announce that pushes were reported. Returns at once."""
        self._composition.addresses.repositories.post(PollStorage())

    def proofs_changed(self) -> None:
        """Announce that proofs were added or canceled in the storage. Returns at once."""
        self._composition.addresses.proofs.post(PollStorage())

    def notifications_added(self) -> None:
        """Announce that deliveries of notifications are in the storage. Returns at once."""
        self._composition.addresses.notifications.post(PollStorage())

    def renders_wait(self) -> str | None:
        """Return why no build is rendered at present; None if builds are."""
        block = admission_block(self._composition.storage, self.settings.pool.low_disk_gb)
        return None if block is None else block.reason

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        """Return the pipelines that an archive declares; None if ``register`` of ``[render]`` is off.

        Blocks for as long as a render takes. Raises RenderFailed, and EngineBusy if no VM is available.
        """
        if not self.settings.render.register:
            return None
        busy = "no VM is free to render the source: try again"
        with ExitStack() as leaving:
            if not leaving.enter_context(self._discovering.one_of(organization, _DISCOVERY_TIMEOUT)):
                raise EngineBusy(busy)
            try:
                return self._composition.discovery.pipelines(organization, slug, archive, leaving)
            except VmError as error:
                raise EngineBusy(f"{busy}: {error}") from error

    def run_on_fork(self, build: Build, job: Job, run: ForkWork[T], *, opened_by: str, gone: Callable[[], bool]) -> T:
        """Do work on a fork of a job's disk and return what came of it; stop it if nobody waits any more.

        Raises DiskGone, RunFailed, what the work raises, and EngineBusy if no VM can be had.
        """
        with self._forking.one_of(build.organization_slug, _RUN_TIMEOUT) as taken:
            if not taken:
                raise EngineBusy("too many commands run on forks at once: try again")
            try:
                return run.done_on(self._composition.forks, build, job, opened_by=opened_by, gone=gone)
            except (forks.ForkBusy, VmError) as error:
                raise EngineBusy(f"no VM can be made for the fork: {error}") from error

    @property
    def terminals(self) -> Terminals:
        """The terminals on forks of jobs' disks."""
        return self._composition.terminals

    @property
    def previews(self) -> Previews:
        """The previews of the disks of passed jobs."""
        return self._composition.previews

    def cancel(self, build_id: int) -> None:
        """Cancel a build. On return its waiting jobs are canceled and its running ones are being ended.

        A finished build stays as it is. Raises EngineBusy after 5 s; the cancel is still carried out.
        """
        if not self._composition.storage.builds.request_cancel(build_id):
            return
        recorded = threading.Event()
        self._composition.addresses.root.post(CancelBuild(build_id, recorded))
        if not recorded.wait(_CANCEL_TIMEOUT):
            message = "the cancel is recorded, but the service is slow to carry it out: check the build again"
            raise EngineBusy(message)

    def watch(self, uuid: str) -> Watch:
        """Return a context manager to wait for changes of a job's log or state, or for a build's render."""
        return self._composition.watchers.watch(uuid)

    def collectors(self) -> Iterable[Collector]:
        """Return the Prometheus collectors of the actors: current gauges, and counts since the start."""
        return self._composition.metrics.collectors(lambda: self.settings.pool, self._composition.providers)

    def pending_reason(self, job: Job) -> str | None:
        """Return why a job waits; None if it does not. Never blocks."""
        return self._composition.reasons.of(job, self._composition.clock.now())
