"""Rendering of an archive without a build: to preview it, or to find the pipelines that it declares."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import field
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
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from actors.ir import Built
    from actors.parts import VmParts
    from actors.render.vm import RenderVm, WaitingVm
    from actors.render.yaml_files import FoundFiles
    from actors.settings import RenderSettings
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
        renderer = ArchiveRenderer(
            self._storage,
            self._providers.named(self._choice.of_archive(organization, image, from_fork=from_fork)),
            self._images,
            self._clock,
            self._live_settings.now.render,
            self._live_settings.now.jobs.min_free_bytes,
            waiting=self._waiting,
        )
        others = partial(self._job_files.find, organization, strangers=from_fork)
        try:
            return renderer.discover(SourceArchive(organization, slug, archive, others=others), leaving)
        finally:
            self._renders.post(ArchiveRendered())


@immutable
class SourceArchive:
    """An archive of a repository, and the organization and slug of the pipeline that it is rendered for.

    Its files are told what is ``built``, and may use ``others``.
    """

    organization: str
    slug: str
    content: bytes = field(repr=False)
    built: Built | None = None
    others: Callable[[Sequence[str]], FoundFiles] = nowhere


@immutable
class ArchiveRenderer:
    """Renders archives without a build, in VMs of a provider. Needs no actor.

    It takes the ``waiting`` VM, or the parked one that ``claim_parked`` returns and whose connection is in
    ``connections``, or makes one. ``min_free`` bytes of the host's disk stay free.
    """

    storage: Storage
    provider: vms.Provider
    images: vms.Images
    clock: Clock
    settings: RenderSettings
    min_free: int
    waiting: WaitingVm | None = None
    claim_parked: Callable[[str, Shape], Lease | None] = lambda _image, _shape: None
    connections: ParkedConnections = field(default_factory=ParkedConnections)

    def discover(self, source: SourceArchive, leaving: ExitStack) -> Envelope:
        """Return the pipelines that an archive declares, for an organization without a pipeline of that slug.

        The result is cached, so a build of the new pipeline is not rendered again. ``leaving`` destroys the VM. Raises
        RenderFailed and VmError.
        """
        image = self.images.resolve(None)
        with self.storage.sources.passing(source.content) as (path, manifest):
            name = cache_name(source.organization, source.slug, path, self.images, image)
            rendered = self.storage.renders.cached(name)
            if rendered is None:
                rendered = self._rendered(source, path, manifest, image, leaving)
                keep(self.storage, self.clock, self.settings.cache_seconds, name, rendered)
        return Envelope.parse(rendered.envelope)

    def render(self, source: SourceArchive) -> Envelope:
        """Return the pipelines that an archive declares, whatever is cached. Raises RenderFailed and VmError."""
        with self.storage.sources.passing(source.content) as (path, manifest), ExitStack() as leaving:
            rendered = self._rendered(source, path, manifest, self.images.resolve(None), leaving)
        return Envelope.parse(rendered.envelope)

    def _rendered(
        self, source: SourceArchive, archive: Path, manifest: Path, image: str, leaving: ExitStack
    ) -> Rendered:
        """Render the files of an archive and write its manifest.

        YAML files are read on the host. For others the archive is unpacked into a VM over SSH, and ``leaving`` destroys
        the VM, which takes time.
        """
        room = self.settings.shape.disk_gb * 2**30
        now = self.clock.now().timestamp()
        files = ArchiveSource(
            self.storage.confinement, source.organization, archive, manifest, room, now, source.others
        ).read()
        if files.alone:
            return files.rendered()
        vm = self._vm(source.organization, VmWanted(self.provider.name, image, self.settings))
        leaving.callback(vm.close)
        with disk_limited(self.storage, self.provider, vm.lease, vm.link, HostDisk(), min_free=self.min_free):
            time, seconds = int(self.clock.now().timestamp()), self.settings.fetch_timeout
            vms.update_workspace(vm.link.connected(), archive, manifest, time=time, timeout=seconds)
            return files.with_others(vm.loader.load(source.organization, source.slug, source.built))

    def _vm(self, organization: str, wanted: VmWanted) -> RenderVm:
        """Return a VM in which the DSL is loaded, or being loaded."""
        return self._waiting_vm(organization, wanted) or self._new_vm(wanted)

    def _waiting_vm(self, organization: str, wanted: VmWanted) -> RenderVm | None:
        """Return the VM that waits with the DSL loaded, if it is as wanted."""
        of = self.storage.organizations.by_slug(organization)
        vm = None if self.waiting is None else self.waiting.take(wanted, 0 if of is None else of.id)
        leases = self.storage.leases
        if vm is not None and leases.assign_preview(vm.lease.id, wanted.image, wanted.settings.shape) is None:
            vm.close()  # its lease was ended
            return None
        return vm

    def _new_vm(self, wanted: VmWanted) -> RenderVm:
        """Attach the disk to the parked VM that is claimed, or make one, and start to load the DSL."""
        image, shape, leases = wanted.image, wanted.settings.shape, self.storage.leases
        lease = self.claim_parked(image, shape) or leases.reserve_unclaimed(
            str(uuid.uuid4()), self.provider.name, image, shape
        )
        link = VmConnection(self.provider, self.clock, lease.uuid)
        return loaded_vm(self.storage, self.provider, self.connections, wanted.settings, lease, link)
