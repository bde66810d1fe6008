"""Rendering of an archive without a build: to preview it, or to find the pipelines that it declares."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.vm import VmConnection
from actors.cleanup.host_disk import HostDisk
from actors.messages import ArchiveRendered
from actors.render.envelope import Envelope
from actors.render.recording import cache_name, keep
from actors.render.vm import VmWanted, disk_limited, loaded_vm
from actors.render.yaml_files import ArchiveSource, nowhere
from actors.scheduling.parked_vms import ParkedConnections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from actors.ir import Built
    from actors.parts import VmParts
    from actors.render.vm import RenderVm, WaitingVm
    from actors.render.yaml_files import FoundFiles
    from actors.settings import EngineSettings, RenderSettings
    from storage import Clock, Lease, Rendered, Shape, Storage


class Shares:
    """Places for work that blocks, of which one owner has only so many. Safe in any thread."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def one_of(self, owner: str, timeout: float) -> Iterator[bool]:
        """Hold a place for an owner while the body runs; False if there is none within ``timeout`` seconds."""
        with self._changed:
            taken = self._changed.wait_for(lambda: self._is_free(owner), timeout)
            self._taken[owner] += taken
        try:
            yield taken
        finally:
            with self._changed:
                self._taken[owner] -= taken
                self._taken += Counter()  # without the owners that hold none
                self._changed.notify_all()

    def _is_free(self, owner: str) -> bool:
        return self._taken.total() < self._most and self._taken[owner] < self._most_of_one


class Discovery:
    """Finds the pipelines that archives declare, in the VM that waits for a render, or in a new one.

    It blocks for as long as a render takes. Safe in any thread.
    """

    def __init__(self, parts: VmParts, *, waiting: WaitingVm) -> None:
        self._storage = parts.storage
        self._providers = parts.providers
        self._choice = parts.choice
        self._images = parts.images
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._waiting = waiting
        self._renders = parts.addresses.renders
        self._job_files = parts.job_files

    def pipelines(
        self, organization: str, slug: str, archive: bytes, leaving: ExitStack, *, from_fork: bool = False
    ) -> Envelope:
        """Return the pipelines that an archive declares, as `discover` does. Raises RenderFailed and VmError."""
        image = self._images.resolve(None)
        try:
            return discover(
                self._storage,
                self._providers.named(self._choice.of_archive(organization, image, from_fork=from_fork)),
                self._images,
                self._clock,
                self._live_settings.now,
                organization=organization,
                slug=slug,
                archive=archive,
                leaving=leaving,
                waiting=self._waiting,
                others=partial(self._job_files.find, organization, strangers=from_fork),
            )
        finally:
            self._renders.post(ArchiveRendered())


def discover(
    storage: Storage,
    provider: vms.Provider,
    images: vms.Images,
    clock: Clock,
    settings: EngineSettings,
    *,
    organization: str,
    slug: str,
    archive: bytes,
    leaving: ExitStack,
    built: Built | None = None,
    claim_parked: Callable[[str, Shape], Lease | None] = lambda _image, _shape: None,
    connections: ParkedConnections | None = None,
    waiting: WaitingVm | None = None,
    others: Callable[[Sequence[str]], FoundFiles] = nowhere,
) -> Envelope:
    """Return the pipelines that an archive declares, for an organization without a pipeline of that slug.

    The result is cached, so a build of the new pipeline is not rendered again. An archive that is not in the cache is
    rendered in the ``waiting`` VM, in a parked one from ``claim_parked``, whose connection is in ``connections``, or in
    a new one. Files are told what is ``built``. ``leaving`` destroys that VM. Raises RenderFailed and VmError.
    """
    image = images.resolve(None)
    with storage.sources.passing(archive) as (path, manifest):
        name = cache_name(organization, slug, path, images, image)
        rendered = storage.renders.cached(name)
        if rendered is None:
            rendered = render_archive(
                storage,
                provider,
                clock,
                settings.render,
                min_free=settings.jobs.min_free_bytes,
                image=image,
                archive=path,
                manifest=manifest,
                organization=organization,
                slug=slug,
                leaving=leaving,
                built=built,
                claim_parked=claim_parked,
                connections=connections,
                waiting=waiting,
                others=others,
            )
            keep(storage, clock, settings.render.cache_seconds, name, rendered)
    return Envelope.parse(rendered.envelope)


def render_archive(
    storage: Storage,
    provider: vms.Provider,
    clock: Clock,
    settings: RenderSettings,
    *,
    min_free: int,
    image: str,
    archive: Path,
    manifest: Path,
    organization: str,
    slug: str,
    leaving: ExitStack,
    built: Built | None = None,
    claim_parked: Callable[[str, Shape], Lease | None] = lambda _image, _shape: None,
    connections: ParkedConnections | None = None,
    waiting: WaitingVm | None = None,
    others: Callable[[Sequence[str]], FoundFiles] = nowhere,
) -> Rendered:
    """Render an archive's pipeline files, as `discover` does; write its manifest. Needs no actor.

    YAML files are read on the host. For others the archive is unpacked into a VM over SSH, and ``leaving`` destroys the
    VM, which takes time. Raises RenderFailed and VmError.
    """
    room = settings.shape.disk_gb * 2**30
    now = clock.now().timestamp()
    files = ArchiveSource(storage.confinement, organization, archive, manifest, room, now, others).read()
    if files.alone:
        return files.rendered()
    wanted = VmWanted(provider.name, image, settings)
    vm = _waiting_vm(storage, waiting, wanted, organization)
    if vm is None:
        claimed = claim_parked(image, settings.shape)
        vm = _new_vm(storage, provider, clock, claimed, connections or ParkedConnections(), wanted)
    leaving.callback(vm.close)
    with disk_limited(storage, provider, vm.lease, vm.link, HostDisk(), min_free=min_free):
        now, seconds = int(clock.now().timestamp()), settings.fetch_timeout
        vms.update_workspace(vm.link.connected(), archive, manifest, time=now, timeout=seconds)
        return files.with_others(vm.loader.load(organization, slug, built))


def _waiting_vm(storage: Storage, waiting: WaitingVm | None, wanted: VmWanted, organization: str) -> RenderVm | None:
    """Return the VM that waits with the DSL loaded, if it is as wanted."""
    of = storage.organizations.by_slug(organization)
    vm = None if waiting is None else waiting.take(wanted, 0 if of is None else of.id)
    if vm is not None and storage.leases.assign_preview(vm.lease.id, wanted.image, wanted.settings.shape) is None:
        vm.close()  # its lease was ended
        return None
    return vm


def _new_vm(
    storage: Storage,
    provider: vms.Provider,
    clock: Clock,
    claimed: Lease | None,
    connections: ParkedConnections,
    wanted: VmWanted,
) -> RenderVm:
    """Attach the disk to the parked VM that is claimed, or make one, and start to load the DSL."""
    image, shape = wanted.image, wanted.settings.shape
    lease = claimed or storage.leases.reserve_unclaimed(str(uuid.uuid4()), provider.name, image, shape)
    link = VmConnection(provider, clock, lease.uuid)
    return loaded_vm(storage, provider, connections, wanted.settings, lease, link)
