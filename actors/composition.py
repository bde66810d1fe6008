"""The composition of the live service: its actors, made of its parts."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pykka

from actors.builds.attempt.disk_cache import CacheNames, DiskCache
from actors.builds.job import JobActor
from actors.builds.supervisor import BuildSupervisor
from actors.cleanup.reaper import Reaper
from actors.messages import ResyncLeases
from actors.parts import VmParts
from actors.render.discovery import Discovery
from actors.render.pool import RenderPool
from actors.render.recording import RenderRecorder
from actors.render.rendering import Rendering
from actors.render.vm import WaitingVm
from actors.scheduling.image_puller import ImagePuller
from actors.scheduling.pool import LeasePool
from actors.supervision import Supervised, spawn
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.job_messages import JobMessage
    from actors.forks.forks import Forks
    from actors.forks.previews import Previews
    from actors.forks.terminals import Terminals
    from actors.messages import (
        BuildMessage,
        ChildStopped,
        ImagePullerMessage,
        JobChanged,
        LeasePoolMessage,
        PollStorage,
        RenderPoolMessage,
        TakeParked,
    )
    from storage import Render


@immutable
class ChildSpec:
    """A long-lived actor of the root. ``make`` starts it; the caller sets its address."""

    actor: type[Supervised[Any, Any]]
    address: Address[PollStorage]
    make: Callable[[], Address[PollStorage]]

    def start(self) -> None:
        """Start the actor, or a successor, at its address."""
        self.address.hand_over(self.make())


@dataclass(frozen=True, kw_only=True)
class Composition(VmParts):
    """The parts of a running service, and the actors made of them.

    ``broken`` is set when restarting actors does not help: the process then ends and systemd starts it again.
    ``draining`` is set once no more leases are granted.
    """

    make_pollers: Callable[[Composition], tuple[ChildSpec, ...]]
    broken: threading.Event = field(default_factory=threading.Event)
    draining: threading.Event = field(default_factory=threading.Event)

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
    def cache(self) -> DiskCache:
        """The cache of disks across builds."""
        return DiskCache(self, names=self._cache_names)

    @cached_property
    def reaper(self) -> Reaper:
        """The reaper."""
        return Reaper(self)

    @cached_property
    def recorder(self) -> RenderRecorder:
        """The recorder of renders."""
        return RenderRecorder(self)

    @cached_property
    def discovery(self) -> Discovery:
        """The discovery of the pipelines that archives declare."""
        return Discovery(self, waiting=self._waiting_vm)

    @cached_property
    def forks(self) -> Forks:
        """The VMs with forks of disks."""
        from actors.forks.forks import Forks  # noqa: PLC0415 - for the first fork

        return Forks(
            self.storage,
            self.providers,
            self.images,
            self.clock,
            lambda: self.live_settings.now,
            lambda: self.addresses.pool.post(ResyncLeases()),
            parked=self.connections,
            take_parked=self._take_parked,
        )

    def _take_parked(self, wanted: TakeParked) -> None:
        """Ask the lease pool for a parked VM; one that is being started again gives none."""
        with suppress(pykka.ActorDeadError):
            self.addresses.pool.ask(wanted)

    @cached_property
    def terminals(self) -> Terminals:
        """The terminals on forks of disks."""
        from actors.forks.terminals import Terminals  # noqa: PLC0415 - for the first of them

        return Terminals(self.storage, self.forks, lambda: self.live_settings.now.terminals)

    @cached_property
    def previews(self) -> Previews:
        """The previews of the disks of passed jobs."""
        from actors.forks.previews import Previews  # noqa: PLC0415 - for the first of them

        return Previews(self.storage, self.forks, self.draining.is_set)

    def build_supervisor(self, build_id: int) -> Address[BuildMessage]:
        """Start the supervisor of a build."""
        return spawn(BuildSupervisor, self, build_id=build_id, job_actor=self._job_actor, cache=self.cache)

    @cached_property
    def _cache_names(self) -> CacheNames:
        return CacheNames(self.storage, self.images)

    @cached_property
    def _waiting_vm(self) -> WaitingVm:
        return WaitingVm(self)

    def _lease_pool(self) -> Address[LeasePoolMessage]:
        return spawn(LeasePool, self, cache=self.cache)

    def _image_puller(self) -> Address[ImagePullerMessage]:
        return spawn(ImagePuller, self, make_room=self.reaper.free_disk_space)

    def _render_pool(self) -> Address[RenderPoolMessage]:
        return spawn(RenderPool, self, rendering=self._rendering, waiting=self._waiting_vm)

    def _rendering(self, render: Render) -> Rendering:
        return Rendering(self, render, recorder=self.recorder, waiting=self._waiting_vm)

    def _job_actor(self, supervisor: Address[JobChanged | ChildStopped], assignment: Assignment) -> Address[JobMessage]:
        return spawn(JobActor, self, supervisor, assignment, names=self._cache_names, cache=self.cache)
