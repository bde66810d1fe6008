"""One build's way from its source to its plan, in a VM of its own (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import uuid
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from actors import vms
from actors.attempt import spec_of
from actors.intake import plan_jobs
from actors.ir import IrError
from actors.link import Abandoned, Link
from actors.messages import Planted, Stirred
from actors.render import steps
from actors.render.dsl import dsl_version
from actors.render.envelope import Envelope, RenderFailed
from actors.runtime import Runtime, post
from storage import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage import Build, Lease, Pipeline, Render, Rendered

__all__ = ["RENDER_LOG", "RENDER_SHAPE", "Rendering", "cache_name", "keep", "plan_from_cache"]

_log = logging.getLogger(__name__)

RENDER_LOG = "render"
"""Stands for a job's UUID in the names of logs."""

RENDER_SHAPE = Shape(cpu=1, memory_gb=2, disk_gb=10)

_GB = 2**30
_MEASURE_SECONDS = 1.0


class Rendering:
    """Renders one build, on a worker thread. Begun anew after a crash: what an earlier VM came to is not looked for."""

    def __init__(self, runtime: Runtime, render: Render) -> None:
        self._runtime = runtime
        self._render = render
        self._abandoned = threading.Event()
        self._links: list[Link] = []
        self._too_large = False

    @property
    def organization_id(self) -> int:
        """Whose build it is."""
        return self._render.organization_id

    def abandon(self) -> None:
        """Have `run` end, soon, and leave the build as it is. Idempotent."""
        self._abandoned.set()
        for link in tuple(self._links):
            link.abandon()

    def run(self) -> None:
        """Render, plan and record, whichever way that ends; a VM that is lost is replaced by another."""
        build = self._runtime.storage.builds.get(self._render.build_id)
        retries = self._runtime.jobs.service_retries
        while build is not None and not self._abandoned.is_set():
            try:
                self._render_in_vm(build)
            except RenderFailed as failure:
                _refuse(self._runtime, build, "render_failed", str(failure), failure.log)
            except (vms.VmError, Abandoned) as error:
                if self._abandoned.is_set():
                    return
                _log.warning("the VM that renders build %s failed: %s", build.uuid, error)
                if retries > 0 and not isinstance(error, vms.ImageNotFound):
                    retries -= 1
                    continue
                _refuse(self._runtime, build, "render_failed", f"render failed: {error}", b"")
            return

    def _render_in_vm(self, build: Build) -> None:
        """Make the VM, do everything in it, and record before it goes, so that nobody waits for its end."""
        settings, storage = self._runtime.render, self._runtime.storage
        with self._vm() as (lease, link):
            archive = self._fetched(build, link)
            name = cache_name(build.organization_slug, build.pipeline_slug, archive, lease.image or "")
            rendered = storage.renders.cached(name)
            if rendered is None:
                env = {"HM_PIPELINE_ORG": build.organization_slug, "HM_PIPELINE_SLUG": build.pipeline_slug}
                with self._held_to_its_disk(lease, link):
                    rendered = steps.load(link.connected(), env, settings)
                keep(self._runtime, name, rendered)
            _settle(self._runtime, build, rendered)

    def _fetched(self, build: Build, link: Link) -> Path:
        """Bring the source into the VM's workspace; return the archive, which the host has from here on."""
        storage, settings = self._runtime.storage, self._runtime.render
        archive, url = storage.sources.path(build.uuid), self._render.source_url
        largest = RENDER_SHAPE.disk_gb * _GB
        deadline = self._runtime.clock.monotonic() + settings.fetch_timeout

        def left() -> float:
            return max(0.1, deadline - self._runtime.clock.monotonic())

        connection = link.connected()
        fetch = partial(steps.fetch, connection, sha256=build.source_sha256)
        if url is None:
            steps.check(archive, largest, build.source_sha256)
            token = storage.runner_tokens.mint(build.id)
            try:
                with connection.forward(self._runtime.api_address) as port:
                    internal = f"http://127.0.0.1:{port}/api/v0/internal/builds/{build.uuid}/source.tar.gz"
                    fetch(internal, token=token, max_bytes=largest, timeout=left())
            finally:
                storage.runner_tokens.revoke(build.id)
        else:
            max_bytes = settings.max_source_mb * 2**20
            fetch(url, token=None, max_bytes=max_bytes, timeout=left())
            storage.sources.store(build.uuid, steps.take_back(connection, max_bytes, left()))
            steps.check(archive, largest, build.source_sha256)
        steps.unpack(connection, left())
        return archive

    @contextmanager
    def _vm(self) -> Iterator[tuple[Lease, Link]]:
        runtime = self._runtime
        image = runtime.images.resolve(None)
        lease = runtime.storage.renders.lease(
            self._render, str(uuid.uuid4()), provider=runtime.provider.name, image=image, shape=RENDER_SHAPE
        )
        if lease is None:
            raise Abandoned
        link = Link(runtime.provider, runtime.clock, lease.uuid)
        self._links.append(link)
        try:
            if self._abandoned.is_set():
                raise Abandoned
            runtime.provider.create(spec_of(lease))
            runtime.storage.leases.active(lease.id)
            link.connect()
            yield lease, link
        finally:
            self._links.remove(link)
            link.disconnect()
            self._release(lease)

    def _release(self, lease: Lease) -> None:
        try:
            self._runtime.provider.destroy(lease.uuid)
        except vms.VmError as error:
            _log.warning("the VM %s cannot be destroyed, the reaper will: %s", lease.uuid, error)
        else:
            self._runtime.storage.leases.end(lease.id)

    @contextmanager
    def _held_to_its_disk(self, lease: Lease, link: Link) -> Iterator[None]:
        """Give up on a VM that writes more than its disk has room for. Raises RenderFailed then."""
        over = threading.Event()
        full = threading.Event()

        def measure() -> None:
            with suppress(vms.VmError, OSError):  # it is on its way out
                while not over.wait(_MEASURE_SECONDS):
                    if self._runtime.provider.disk_bytes(lease.uuid) > lease.shape.disk_gb * _GB:
                        full.set()
                        link.abandon()
                        return

        threading.Thread(target=measure, name="render-disk", daemon=True).start()
        try:
            yield
        except (vms.VmError, Abandoned):
            if full.is_set():
                message = f"render failed: it wrote more than the {lease.shape.disk_gb} GB of the VM's disk"
                raise RenderFailed(message) from None
            raise
        finally:
            over.set()


def plan_from_cache(runtime: Runtime, build: Build) -> bool:
    """Plan a build from what its archive was rendered to before; False where it was not, or is not on this host."""
    if not build.has_source:
        return False
    archive = runtime.storage.sources.path(build.uuid)
    image = runtime.images.resolve(None)
    rendered = runtime.storage.renders.cached(cache_name(build.organization_slug, build.pipeline_slug, archive, image))
    if rendered is None or (build.source_sha256 and build.source_sha256 != _sha256(archive)):
        return False
    _settle(runtime, build, rendered)
    return True


def _settle(runtime: Runtime, build: Build, rendered: Rendered) -> None:
    """Record what a build was rendered to: its plan, or why there is none."""
    pipeline = runtime.storage.pipelines.by_id(build.pipeline_id)
    if pipeline is None:
        return
    try:
        envelope = Envelope.parse(rendered.envelope)
        pipeline_ir = envelope.wanted(_wanted(pipeline)).pipeline_ir
        planned = plan_jobs(pipeline_ir, runtime.limits)
    except RenderFailed as failure:
        _refuse(runtime, build, "render_failed", str(failure), rendered.log)
    except IrError as error:
        _refuse(runtime, build, error.code, error.message, rendered.log)
    else:
        _write_log(runtime, build, rendered.log)
        storage = runtime.storage
        if storage.renders.plan(build.id, pipeline_ir, planned.timeout_seconds, planned.jobs, has_source=True):
            post(runtime.crew.root, Planted(build.id))
            _follow(runtime, build, pipeline, envelope)
        post(runtime.crew.hub, Stirred(build.uuid))


def _follow(runtime: Runtime, build: Build, pipeline: Pipeline, envelope: Envelope) -> None:
    """Take in what the repository declares on its main branch."""
    if pipeline.repo_name is not None and build.branch == pipeline.default_branch:
        declared = {each.slug: each.declaration for each in envelope.pipelines}
        runtime.storage.declarations.follow(pipeline.organization_id, pipeline.repo_name, declared)


def _refuse(runtime: Runtime, build: Build, code: str, message: str, log: bytes) -> None:
    _write_log(runtime, build, log)
    runtime.storage.renders.refuse(build.id, code, message)
    post(runtime.crew.hub, Stirred(build.uuid))


def _write_log(runtime: Runtime, build: Build, log: bytes) -> None:
    """Keep what the pipeline files printed, once; a plan is worth more than a log for which there is no room."""
    try:
        if log and not runtime.storage.logs.reader(build.uuid, RENDER_LOG).exists():
            writer = runtime.storage.logs.writer(build.uuid, RENDER_LOG, 1)
            writer.output(log)
            writer.end()
            writer.close()
    except OSError as error:
        _log.warning("the render log of build %s cannot be written: %s", build.uuid, error)


def keep(runtime: Runtime, name: bytes, rendered: Rendered) -> None:
    """Keep an envelope for builds of the same archive, until one of its cache keys would be another."""
    now = runtime.clock.now()
    until = now + timedelta(seconds=runtime.render.cache_seconds)
    holds = Envelope.parse(rendered.envelope).holds_until(now.timestamp())
    if holds is not None:
        until = min(until, datetime.fromtimestamp(min(holds, until.timestamp()), UTC))
    if until > now:
        runtime.storage.renders.keep(name, rendered, until)


def _wanted(pipeline: Pipeline) -> str:
    """Return what the repository calls a pipeline."""
    return pipeline.source_slug or pipeline.slug


def cache_name(organization: str, pipeline: str, archive: Path, image: str) -> bytes:
    """Return a hash of everything that an envelope follows from, but the time."""
    parts = (organization, pipeline, _sha256(archive), dsl_version(), image)
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def _sha256(archive: Path) -> str:
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
