"""Rendering of an archive without a build: to preview it, or to find the pipelines that it declares."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from actors import vms
from actors.host_disk import HostDisk
from actors.link import Link
from actors.render import steps
from actors.render.cache import cache_name, keep
from actors.render.envelope import Envelope
from actors.render.vm import held_to_disk, running

if TYPE_CHECKING:
    from actors.render.settings import RenderSettings
    from actors.runtime import Runtime
    from storage import Clock, Rendered, Storage

__all__ = ["discover", "render_alone"]


def discover(runtime: Runtime, organization: str, slug: str, archive: bytes) -> Envelope:
    """Return the pipelines that an archive declares, for an organization without a pipeline of that slug.

    The result is cached, so a build of the new pipeline is not rendered again. Raises RenderFailed and VmError.
    """
    image = runtime.images.resolve(None)
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        file.write(archive)
        file.flush()
        name = cache_name(organization, slug, Path(file.name), image)
        rendered = runtime.storage.renders.cached(name)
        if rendered is None:
            rendered = render_alone(
                runtime.storage,
                runtime.provider,
                runtime.clock,
                runtime.settings.render,
                min_free=runtime.settings.jobs.min_free_bytes,
                image=image,
                archive=Path(file.name),
                organization=organization,
                slug=slug,
            )
            keep(runtime, name, rendered)
    return Envelope.parse(rendered.envelope)


def render_alone(
    storage: Storage,
    provider: vms.Provider,
    clock: Clock,
    settings: RenderSettings,
    *,
    min_free: int,
    image: str,
    archive: Path,
    organization: str,
    slug: str,
) -> Rendered:
    """Render an archive's pipeline files in a VM of this host, then destroy the VM. Needs no actor.

    The archive is unpacked into the VM over SSH. Raises RenderFailed and VmError.
    """
    with tempfile.TemporaryDirectory() as temporary:
        manifest = Path(temporary, "manifest")
        steps.describe(archive, manifest, settings.shape.disk_gb * 2**30, "")
        lease = storage.leases.reserve_warm(str(uuid.uuid4()), provider.name, image, settings.shape)
        link = Link(provider, clock, lease.uuid)
        with running(storage, provider, lease, link) as connection:
            now = int(clock.now().timestamp())
            vms.lay_source(connection, archive, manifest, time=now, timeout=settings.fetch_timeout)
            with held_to_disk(storage, provider, lease, link, HostDisk(), min_free=min_free):
                return steps.load(connection, organization, slug, settings)
