"""The live service as the API and the process use it: a few calls, none of which waits for a build."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.hub import Watch
from actors.messages import CancelBuild, Demand, Drain, Planted, Recount
from actors.observations import EngineGauges
from actors.reaper import reap_unborn
from actors.render.alone import discover
from actors.render.settling import plan_from_cache
from actors.root import RootSupervisor
from actors.runtime import Configuration, Crew, Images, Runtime, Settings, post
from actors.standstill import standstill
from actors.timer import Timer
from actors.vms import VmError
from actors.waiting import awaits_image, back_off
from storage import Clock, Job, JobState, Storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.registry import Collector

    from actors.render.envelope import Envelope
    from actors.vms import Provider

__all__ = ["Engine", "EngineBusy"]

_CANCEL_PATIENCE = 5.0
_DISCOVERY_PATIENCE = 120.0


class EngineBusy(Exception):
    """The actors did not answer in time, or no VM is free. A cancel is in the storage and will be done."""


class Engine:
    """Starts and stops the actors and speaks to them. Every method may be called from any thread.

    Args:
        storage: the open storage; the caller closes it after `stop`.
        provider: makes the VMs.
        images: resolves, pulls and removes images.
        clock: the time.
        settings: the configuration.
    """

    def __init__(self, storage: Storage, provider: Provider, images: Images, clock: Clock, settings: Settings) -> None:
        self._runtime = Runtime(storage, provider, images, clock, Timer(clock), Configuration(settings))
        self._draining = threading.Event()
        self._discovering = threading.BoundedSemaphore(settings.render.vms)

    @property
    def draining(self) -> bool:
        """True once the service grants no more leases, because it is about to stop."""
        return self._draining.is_set()

    @property
    def broken(self) -> threading.Event:
        """Set when actors die faster than restarting them helps; the process should end then."""
        return self._runtime.give_up

    @property
    def crew(self) -> Crew:
        """The addresses of the long-lived actors."""
        return self._runtime.crew

    def start(self) -> None:
        """Start the actors and attach to jobs that an earlier process left running; return when done."""
        self._runtime.timer.start()
        reap_unborn(self._runtime)
        RootSupervisor.start(self._runtime).ask(Demand())

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._runtime.settings

    def reconfigure(self, settings: Settings) -> None:
        """Apply new settings. Running attempts keep the time-outs and limits that they began with."""
        self._runtime.configuration.settings = settings
        post(self._runtime.crew.pool, Recount())

    def drain(self) -> None:
        """Grant no more leases. Running jobs go on."""
        self._draining.set()
        post(self._runtime.crew.pool, Drain())
        post(self._runtime.crew.renders, Drain())

    def stop(self) -> None:
        """Stop the actors, last started first. VMs and their commands run on for the next process."""
        self.drain()
        self._runtime.timer.stop()
        root = self._runtime.crew.root
        if root is not None and root.is_alive():
            root.stop(block=True)

    def jobs_added(self, build_id: int) -> None:
        """Announce that a build and its jobs are in the storage. Returns at once."""
        post(self._runtime.crew.root, Planted(build_id))

    def render(self, build_id: int) -> None:
        """Announce a build that needs rendering; plan it here if the render of its archive is cached."""
        build = self._runtime.storage.builds.get(build_id)
        if build is not None and not plan_from_cache(self._runtime, build):
            post(self._runtime.crew.renders, Demand())

    def renders_wait(self) -> str | None:
        """Return why no build is rendered at present; None if builds are."""
        still = standstill(self._runtime.storage, self._runtime.settings.pool.low_disk_gb)
        return None if still is None else still.reason

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        """Return the pipelines that an archive declares; None if ``register`` of ``[render]`` is off.

        Blocks for as long as a render takes. Raises RenderFailed, and EngineBusy if no VM is available.
        """
        if not self._runtime.settings.render.register:
            return None
        busy = "no VM is to be had to look into the source: try again"
        if not self._discovering.acquire(timeout=_DISCOVERY_PATIENCE):
            raise EngineBusy(busy)
        try:
            return discover(self._runtime, organization, slug, archive)
        except VmError as error:
            raise EngineBusy(f"{busy}: {error}") from error
        finally:
            self._discovering.release()

    def cancel(self, build_id: int) -> None:
        """Cancel a build. On return its waiting jobs are canceled and its running ones are being ended.

        A finished build stays as it is. Raises EngineBusy after 5 s; the cancel is still carried out.
        """
        if not self._runtime.storage.builds.request_cancel(build_id):
            return
        recorded = threading.Event()
        post(self._runtime.crew.root, CancelBuild(build_id, recorded))
        if not recorded.wait(_CANCEL_PATIENCE):
            message = "the build's cancel is noted but the service is slow to act on it: look at the build again"
            raise EngineBusy(message)

    def watch(self, uuid: str) -> Watch:
        """Return a context manager to wait for changes of a job's log or state, or for a build's render."""
        return Watch(self._runtime.crew, uuid)

    def collectors(self) -> Iterable[Collector]:
        """Return the Prometheus collectors of the actors: current gauges, and counts since the start."""
        runtime = self._runtime
        return EngineGauges(runtime.configuration, runtime.drops), runtime.observations

    def pending_reason(self, job: Job) -> str | None:
        """Return why a job waits; None if it does not. Never blocks."""
        match job.state:
            case JobState.PENDING:
                return "waiting for the jobs that it depends on"
            case JobState.SCHEDULED if job.awaited_image is not None:
                return awaits_image(job.awaited_image, self._runtime.board.pulls.get(job.awaited_image))
            case JobState.SCHEDULED:
                now = self._runtime.clock.now()
                return back_off(job, now) or self._runtime.board.waiting.reason(job.id, job.organization_id)
            case _:
                return None
