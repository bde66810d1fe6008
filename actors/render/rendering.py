"""The rendering of one build: its YAML on the host, the rest in a VM (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import logging
import threading
import uuid
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pykka

from actors import vms
from actors.builds.attempt.vm import Abandoned, VmConnection
from actors.messages import TakeParked
from actors.render import loader
from actors.render.envelope import RenderFailed
from actors.render.recording import cache_name, keep
from actors.render.vm import VmWanted, disk_limited, loaded_vm
from actors.render.yaml_files import ArchiveSource
from storage import BuildErrorCode, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.parts import VmParts
    from actors.render.recording import RenderRecorder
    from actors.render.vm import RenderVm, WaitingVm
    from actors.render.yaml_files import YamlFiles
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
        self._cpu_shares = parts.cpu_shares
        self._recorder = recorder
        self._pool = parts.addresses.pool
        self._parked = parts.connections
        self._waiting = waiting
        self._job_files = parts.job_files
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
        """Render the build and record its plan or its failure. If its VM fails, retry in another."""
        build = self._storage.builds.get(self._render.build_id)
        retries = self._settings.jobs.service_retries
        while build is not None and not self._abandoned.is_set():
            try:
                self._render_build(build)
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

    def _render_build(self, build: Build) -> None:
        """Render a build, and record the result.

        YAML files need no VM. The VM of others is destroyed after the result is recorded, because that takes time.
        """
        deadline = self._clock.monotonic() + self._settings.render.fetch_timeout

        def left() -> float:
            return max(_LEAST_SECONDS, deadline - self._clock.monotonic())

        if self._render.source_url is None:
            files = self._files(build, left)
            if files.alone:
                self._recorder.record(build, files.rendered())
            else:
                with self._vm() as vm:
                    self._render_in_vm(build, vm, files, left)
            return
        with self._vm() as vm:
            self._download(build, vm.link, left)
            files = self._files(build, left)
            if files.alone:
                self._recorder.record(build, files.rendered())
            else:
                self._render_in_vm(build, vm, files, left)

    def _render_in_vm(self, build: Build, vm: RenderVm, files: YamlFiles, left: Callable[[], float]) -> None:
        """Render what is no YAML in a VM, unless the result is cached, and record all."""
        settings, storage = self._settings.render, self._storage
        archive, image = storage.sources.path(build.uuid), vm.lease.image or ""
        name = cache_name(build.organization_slug, build.pipeline_slug, archive, self._images, image)
        rendered = storage.renders.cached(name)
        if rendered is None:
            provider, min_free = self._providers.of(vm.lease), self._settings.jobs.min_free_bytes
            with disk_limited(storage, provider, vm.lease, vm.link, self._host_disk, min_free=min_free):
                self._fetch(build, vm, left)
                built = self._recorder.built(build)
                rendered = files.with_others(vm.loader.load(build.organization_slug, build.pipeline_slug, built))
            keep(storage, self._clock, settings.cache_seconds, name, rendered)
        self._recorder.record(build, rendered)

    def _download(self, build: Build, link: VmConnection, left: Callable[[], float]) -> None:
        """Let the VM download the source from its URL, and keep the archive on the host."""
        storage, settings, url = self._storage, self._settings.render, self._render.source_url or ""
        connection, max_bytes = link.connected(), settings.max_source_mb * 2**20
        loader.fetch(connection, url, sha256=build.source_sha256, max_bytes=max_bytes, timeout=left())
        storage.sources.store(build.uuid, loader.download_archive(connection, max_bytes, left()))

    def _files(self, build: Build, left: Callable[[], float]) -> YamlFiles:
        """Check the archive on the host, and read its YAML files."""
        storage, owner = self._storage, build.organization_slug
        strangers = build.from_fork and build.approved_at is None
        source = ArchiveSource(
            storage.confinement,
            owner,
            storage.sources.path(build.uuid),
            storage.sources.manifest(build.uuid),
            max_bytes=self._settings.render.shape.disk_gb * 2**30,
            now=self._clock.now().timestamp(),
            others=partial(self._job_files.find, owner, strangers=strangers),
            sha256=build.source_sha256,
        )
        while True:
            try:
                return source.read()
            except DatabaseUnavailable as error:
                if left() <= _LEAST_SECONDS:
                    raise RenderFailed.exited("source fetch", 1, str(error)) from error
                if self._abandoned.wait(_HOST_PAUSE):
                    raise Abandoned from error

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
        vm = self._waiting.take(wanted, self._render.organization_id)
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
        claim = partial(self._storage.renders.lease_parked, self._render, image=wanted.image, shape=shape)
        asked = TakeParked(wanted.provider, claim)
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
        """Let `abandon` find the connection, and give the VM its share of the CPU, until the block is left."""
        self._links[lease.uuid] = link
        leaving.callback(self._links.pop, lease.uuid)
        self._cpu_shares.join(self._render.organization_id, lease.uuid, self._providers.of(lease))
        leaving.callback(self._cpu_shares.leave, lease.uuid)
        if self._abandoned.is_set():
            link.abandon()
