"""The rendering of one build in a VM of its own (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import logging
import threading
import uuid
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import pykka

from actors import vms
from actors.builds.attempt.vm_connection import Abandoned, VmConnection
from actors.messages import TakeParked
from actors.render import loader
from actors.render.envelope import RenderFailed
from actors.render.recording import cache_name, keep
from actors.render.vm import VmWanted, disk_limited, loaded_vm
from storage import BuildErrorCode, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.parts import VmParts
    from actors.render.recording import RenderRecorder
    from actors.render.vm import RenderVm, WaitingVm
    from storage import Build, Lease, Render

_LEAST_SECONDS = 0.1
_HOST_PAUSE = 1.0

_log = logging.getLogger(__name__)


class Rendering:
    """Renders one build on a worker thread. After a crash it starts again, in a new VM."""

    def __init__(self, parts: VmParts, render: Render, *, recorder: RenderRecorder, waiting: WaitingVm) -> None:
        self._render = render
        self._storage = parts.storage
        self._providers = parts.providers
        self._choice = parts.choice
        self._images = parts.images
        self._clock = parts.clock
        self._settings = parts.live_settings.now
        self._host_disk = parts.host_disk
        self._recorder = recorder
        self._pool = parts.addresses.pool
        self._parked = parts.connections
        self._waiting = waiting
        self._abandoned = threading.Event()
        self._links: dict[str, VmConnection] = {}

    @property
    def organization_id(self) -> int:
        """The organization of the build."""
        return self._render.organization_id

    def abandon(self) -> None:
        """Make `run` end soon and leave the build as it is. Idempotent."""
        self._abandoned.set()
        for vm_id, link in tuple(self._links.items()):
            link.abandon()
            self._parked.discard(vm_id)

    def run(self) -> None:
        """Render the build and record its plan or its failure. If the VM fails, retry in another."""
        build = self._storage.builds.get(self._render.build_id)
        retries = self._settings.jobs.service_retries
        while build is not None and not self._abandoned.is_set():
            try:
                self._render_in_vm(build)
            except RenderFailed as failure:
                self._recorder.refuse(build, BuildErrorCode.RENDER_FAILED, str(failure), failure.log)
            except (vms.VmError, Abandoned) as error:
                if self._abandoned.is_set():
                    return
                _log.warning("the VM that renders build %s failed: %s", build.uuid, error)
                if retries > 0 and not isinstance(error, vms.ImageNotFound):
                    retries -= 1
                    continue
                self._recorder.refuse(build, BuildErrorCode.RENDER_FAILED, f"render failed: {error}", b"")
            return

    def _render_in_vm(self, build: Build) -> None:
        """Render in a VM of its own, and record the result before destroying the VM, which takes time."""
        settings, storage = self._settings.render, self._storage
        deadline = self._clock.monotonic() + settings.fetch_timeout

        def left() -> float:
            return max(_LEAST_SECONDS, deadline - self._clock.monotonic())

        with self._vm() as vm:
            archive = self._archive(build, vm.link, left)
            image = vm.lease.image or ""
            name = cache_name(build.organization_slug, build.pipeline_slug, archive, self._images, image)
            rendered = storage.renders.cached(name)
            if rendered is None:
                provider, min_free = self._providers.of(vm.lease), self._settings.jobs.min_free_bytes
                with disk_limited(storage, provider, vm.lease, vm.link, self._host_disk, min_free=min_free):
                    self._fetch(build, vm, left)
                    rendered = vm.loader.load(build.organization_slug, build.pipeline_slug)
                keep(storage, self._clock, settings.cache_seconds, name, rendered)
            self._recorder.record(build, rendered)

    def _archive(self, build: Build, link: VmConnection, left: Callable[[], float]) -> Path:
        """Return the checked archive of the source on the host; if it has a URL, the VM downloads it first."""
        storage, settings, url = self._storage, self._settings.render, self._render.source_url
        if url is not None:
            connection, max_bytes = link.connected(), settings.max_source_mb * 2**20
            loader.fetch(connection, url, sha256=build.source_sha256, max_bytes=max_bytes, timeout=left())
            storage.sources.store(build.uuid, loader.download_archive(connection, max_bytes, left()))
        archive, manifest = storage.sources.path(build.uuid), storage.sources.manifest(build.uuid)
        room, owner = settings.shape.disk_gb * 2**30, build.organization_slug
        while True:
            try:
                loader.check_archive(storage.confinement, owner, archive, manifest, room, build.source_sha256)
            except DatabaseUnavailable as error:
                if left() <= _LEAST_SECONDS:
                    raise RenderFailed.exited("source fetch", 1, str(error)) from error
                if self._abandoned.wait(_HOST_PAUSE):
                    raise Abandoned from error
            else:
                return archive

    def _fetch(self, build: Build, vm: RenderVm, left: Callable[[], float]) -> None:
        """Put the source into the VM's workspace."""
        connection = vm.link.connected()
        if self._render.source_url is not None:
            loader.unpack(connection, left())
            return
        tokens, path = self._storage.runner_tokens, f"/api/v0/internal/builds/{build.uuid}/source.tar.gz"
        token = tokens.mint(build.id)
        try:
            with connection.forward(self._settings.api_address) as port:
                vm.loader.fetch(port, path, token)
        finally:
            tokens.revoke(build.id)

    @contextmanager
    def _vm(self) -> Iterator[RenderVm]:
        image = self._images.resolve(None)
        wanted = VmWanted(self._choice.of_build(self._render.build_id, image), image, self._settings.render)
        with ExitStack() as leaving:
            vm = self._waiting_vm(wanted, leaving) or self._new_vm(wanted, leaving)
            member = self._providers.of(vm.lease).member(vm.lease.uuid)
            self._storage.leases.active(vm.lease.id, member=member)
            yield vm

    def _waiting_vm(self, wanted: VmWanted, leaving: ExitStack) -> RenderVm | None:
        """Return the VM that waits with the DSL loaded, if it is as wanted."""
        vm = self._waiting.take(wanted)
        if vm is None:
            return None
        leaving.callback(vm.close)
        shape = wanted.settings.shape
        lease = self._storage.renders.lease_parked(self._render, vm.lease.id, image=wanted.image, shape=shape)
        if lease is None:  # the VM's lease was ended, or the render is finished
            return None
        self._note(vm.link, lease, leaving)
        return vm

    def _new_vm(self, wanted: VmWanted, leaving: ExitStack) -> RenderVm:
        """Attach the disk to a parked VM, or make one, and start to load the DSL."""
        shape = wanted.settings.shape
        asked = TakeParked(self._render, wanted.provider, wanted.image, shape)
        with suppress(pykka.ActorDeadError):
            self._pool.ask(asked)
        lease = next(iter(asked.taken), None) or self._storage.renders.lease(
            self._render, str(uuid.uuid4()), provider=wanted.provider, image=wanted.image, shape=shape
        )
        if lease is None:
            raise Abandoned
        provider = self._providers.of(lease)
        link = VmConnection(provider, self._clock, lease.uuid)
        self._note(link, lease, leaving)
        vm = loaded_vm(self._storage, provider, self._parked, wanted.settings, lease, link)
        leaving.callback(vm.close)
        return vm

    def _note(self, link: VmConnection, lease: Lease, leaving: ExitStack) -> None:
        """Let `abandon` find the connection until the block is left."""
        self._links[lease.uuid] = link
        leaving.callback(self._links.pop, lease.uuid)
        if self._abandoned.is_set():
            link.abandon()
