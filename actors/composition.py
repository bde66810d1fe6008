"""The composition of the live service: its parts, and the actors made of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from actors.addresses import Addresses
from actors.builds.attempt.disk_cache import CacheNames, DiskCache
from actors.builds.attempt.finalizing import Finalizer
from actors.builds.attempt.runner import AttemptRunner
from actors.builds.attempt.state import AttemptState
from actors.builds.job import JobActor
from actors.builds.supervisor import BuildSupervisor
from actors.cleanup.host_disk import HostDisk
from actors.cleanup.reaper import Reaper
from actors.log_watchers import LogWatchers
from actors.render.discovery import Discovery
from actors.render.pool import RenderPool
from actors.render.recording import RenderRecorder
from actors.render.rendering import Rendering
from actors.render.vm import WaitingVm
from actors.scheduling.image_puller import ImagePuller
from actors.scheduling.parked_vms import ParkedConnections
from actors.scheduling.pending_reason import PendingReasons
from actors.scheduling.pool import LeasePool
from actors.scheduling.provider_choice import ProviderChoice
from actors.supervision import Supervised, spawn
from actors.timer import Timer
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.job_messages import JobMessage
    from actors.messages import (
        BuildMessage,
        ChildStopped,
        ImagePullerMessage,
        JobChanged,
        LeasePoolMessage,
        PollStorage,
        RenderPoolMessage,
    )
    from actors.metrics import EngineMetrics
    from actors.settings import LiveSettings, Timings
    from actors.vms import Images, Providers
    from storage import Clock, Render, Storage


@immutable
class ChildSpec:
    """A long-lived actor of the root. ``make`` starts it; the caller sets its address."""

    actor: type[Supervised[Any, Any]]
    address: Address[PollStorage]
    make: Callable[[], Address[PollStorage]]

    def start(self) -> None:
        """Start the actor, or a successor, at its address."""
        self.address.hand_over(self.make())


@dataclass(frozen=True)
class Composition:
    """The parts of a running service; each says who may change it.

    ``broken`` is set when restarting actors does not help: the process then ends and systemd starts it again.
    """

    storage: Storage
    providers: Providers
    images: Images
    clock: Clock
    live_settings: LiveSettings
    metrics: EngineMetrics
    timings: Timings
    make_pollers: Callable[[Composition], tuple[ChildSpec, ...]]
    addresses: Addresses = field(default_factory=Addresses)
    reasons: PendingReasons = field(default_factory=PendingReasons)
    watchers: LogWatchers = field(default_factory=LogWatchers)
    connections: ParkedConnections = field(default_factory=ParkedConnections)
    host_disk: HostDisk = field(default_factory=HostDisk)
    broken: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def children(self) -> tuple[ChildSpec, ...]:
        """The long-lived actors, in the order of their start."""
        return (
            ChildSpec(ImagePuller, self.addresses.images, self._image_puller),
            ChildSpec(LeasePool, self.addresses.pool, self._lease_pool),
            ChildSpec(RenderPool, self.addresses.renders, self._render_pool),
            *self.make_pollers(self),
        )

    @property
    def supervised(self) -> Iterable[type[Supervised[Any, Any]]]:
        """The classes of all actors that are started again after their death."""
        return (BuildSupervisor, JobActor, *(child.actor for child in self.children))

    @cached_property
    def timer(self) -> Timer:
        """The timer of all actors."""
        return Timer(self.clock)

    @cached_property
    def choice(self) -> ProviderChoice:
        """The choice of providers for jobs and renders."""
        return ProviderChoice(self.storage, self.live_settings)

    @cached_property
    def cache_names(self) -> CacheNames:
        """The names of cached disks."""
        return CacheNames(self.storage, self.images)

    @cached_property
    def cache(self) -> DiskCache:
        """The cache of disks across builds."""
        return DiskCache(
            storage=self.storage,
            providers=self.providers,
            choice=self.choice,
            images=self.images,
            names=self.cache_names,
            clock=self.clock,
            live_settings=self.live_settings,
            metrics=self.metrics,
            watchers=self.watchers,
        )

    @cached_property
    def reaper(self) -> Reaper:
        """The reaper."""
        return Reaper(
            storage=self.storage,
            providers=self.providers,
            images=self.images,
            clock=self.clock,
            host_disk=self.host_disk,
            live_settings=self.live_settings,
            pool=self.addresses.pool,
        )

    @cached_property
    def recorder(self) -> RenderRecorder:
        """The recorder of renders."""
        return RenderRecorder(
            storage=self.storage,
            images=self.images,
            live_settings=self.live_settings,
            metrics=self.metrics,
            root=self.addresses.root,
            watchers=self.watchers,
        )

    @cached_property
    def waiting_vm(self) -> WaitingVm:
        """The VM that waits for the next render."""
        return WaitingVm(self.storage, self.providers, self.clock, self.live_settings)

    @cached_property
    def discovery(self) -> Discovery:
        """The discovery of the pipelines that archives declare."""
        return Discovery(
            storage=self.storage,
            providers=self.providers,
            choice=self.choice,
            images=self.images,
            clock=self.clock,
            live_settings=self.live_settings,
            waiting=self.waiting_vm,
            renders=self.addresses.renders,
        )

    def _lease_pool(self) -> Address[LeasePoolMessage]:
        return spawn(
            LeasePool,
            timer=self.timer,
            root=self.addresses.root,
            image_puller=self.addresses.images,
            storage=self.storage,
            providers=self.providers,
            choice=self.choice,
            images=self.images,
            clock=self.clock,
            connections=self.connections,
            live_settings=self.live_settings,
            cache=self.cache,
            reasons=self.reasons,
            metrics=self.metrics,
            timings=self.timings,
        )

    def _image_puller(self) -> Address[ImagePullerMessage]:
        return spawn(
            ImagePuller,
            timer=self.timer,
            root=self.addresses.root,
            pool=self.addresses.pool,
            storage=self.storage,
            images=self.images,
            clock=self.clock,
            live_settings=self.live_settings,
            make_room=self.reaper.free_disk_space,
            progress=self.reasons.pulls,
            watchers=self.watchers,
            metrics=self.metrics,
            timings=self.timings,
        )

    def _render_pool(self) -> Address[RenderPoolMessage]:
        return spawn(
            RenderPool,
            timer=self.timer,
            root=self.addresses.root,
            pool=self.addresses.pool,
            storage=self.storage,
            providers=self.providers,
            live_settings=self.live_settings,
            rendering=self._rendering,
            waiting=self.waiting_vm,
            watchers=self.watchers,
            timings=self.timings,
        )

    def build_supervisor(self, build_id: int) -> Address[BuildMessage]:
        """Start the supervisor of a build."""
        return spawn(
            BuildSupervisor,
            build_id=build_id,
            timer=self.timer,
            root=self.addresses.root,
            pool=self.addresses.pool,
            job_actor=self._job_actor,
            storage=self.storage,
            clock=self.clock,
            cache=self.cache,
            watchers=self.watchers,
            metrics=self.metrics,
            timings=self.timings,
        )

    def _job_actor(self, supervisor: Address[JobChanged | ChildStopped], assignment: Assignment) -> Address[JobMessage]:
        """Start the actor of an attempt, which keeps the settings of its start."""
        settings, storage = self.live_settings.now, self.storage
        attempt = AttemptRunner(
            assignment=assignment,
            storage=storage,
            provider=self.providers.of(assignment.lease),
            images=self.images,
            names=self.cache_names,
            connections=self.connections,
            clock=self.clock,
            settings=settings,
            host_disk=self.host_disk,
            metrics=self.metrics,
            acquire_pauses=self.timings.acquire,
            on_output=partial(self.watchers.notify, assignment.job.uuid),
            seconds_unwatched=self.timer.seconds_unwatched,
        )
        finalizer = Finalizer(
            assignment=assignment,
            attempt=attempt,
            store=storage,
            cache=self.cache,
            settings=settings.jobs,
            metrics=self.metrics,
            pool=self.addresses.pool,
        )
        state = AttemptState(
            assignment=assignment,
            finalizer=finalizer,
            storage=storage,
            watchers=self.watchers,
            metrics=self.metrics,
            supervisor=supervisor,
        )
        return spawn(
            JobActor,
            timer=self.timer,
            supervisor=supervisor,
            assignment=assignment,
            attempt=attempt,
            finalizer=finalizer,
            state=state,
            storage=storage,
            settings=settings.jobs,
            timings=self.timings,
        )

    def _rendering(self, render: Render) -> Rendering:
        return Rendering(
            render=render,
            storage=self.storage,
            providers=self.providers,
            choice=self.choice,
            images=self.images,
            clock=self.clock,
            settings=self.live_settings.now,
            host_disk=self.host_disk,
            recorder=self.recorder,
            pool=self.addresses.pool,
            connections=self.connections,
            waiting=self.waiting_vm,
        )
