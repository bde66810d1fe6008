"""Rendering of an archive without a build: to preview it, or to find the pipelines that it declares."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.vm_connection import VmConnection
from actors.cleanup.host_disk import HostDisk
from actors.render import phases
from actors.render.envelope import Envelope
from actors.render.envelope_cache import cache_name, keep
from actors.render.loader import Loader
from actors.render.vm import disk_limited, running_vm
from actors.scheduling.parked_vms import ParkedConnections

if TYPE_CHECKING:
    from actors.engine_settings import EngineSettings
    from actors.render.settings import RenderSettings
    from storage import Clock, Lease, Rendered, Shape, Storage

__all__ = ["discover", "render_archive"]


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
    parked: Lease | None = None,
) -> Envelope:
    """Return the pipelines that an archive declares, for an organization without a pipeline of that slug.

    The result is cached, so a build of the new pipeline is not rendered again. It is rendered in the VM that is
    ``parked``, which nobody else must use. Raises RenderFailed and VmError.
    """
    image = images.resolve(None)
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        file.write(archive)
        file.flush()
        name = cache_name(organization, slug, Path(file.name), image)
        rendered = storage.renders.cached(name)
        if rendered is None:
            rendered = render_archive(
                storage,
                provider,
                clock,
                settings.render,
                min_free=settings.jobs.min_free_bytes,
                image=image,
                archive=Path(file.name),
                organization=organization,
                slug=slug,
                parked=parked,
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
    organization: str,
    slug: str,
    parked: Lease | None = None,
) -> Rendered:
    """Render an archive's pipeline files in a VM, new or ``parked``, then destroy the VM. Needs no actor.

    The archive is unpacked into the VM over SSH. Raises RenderFailed and VmError.
    """
    with tempfile.TemporaryDirectory() as temporary:
        manifest = Path(temporary, "manifest")
        phases.check_archive(archive, manifest, settings.shape.disk_gb * 2**30, "")
        lease = _claim(storage, parked, image, settings.shape) or storage.leases.reserve_unclaimed(
            str(uuid.uuid4()), provider.name, image, settings.shape
        )
        link = VmConnection(provider, clock, lease.uuid)
        with running_vm(storage, provider, ParkedConnections(), lease, link) as connection:
            now, seconds = int(clock.now().timestamp()), settings.fetch_timeout
            with (
                disk_limited(storage, provider, lease, link, HostDisk(), min_free=min_free),
                Loader(connection, settings) as loader,
            ):
                vms.update_workspace(connection, archive, manifest, time=now, timeout=seconds)
                return loader.load(organization, slug)


def _claim(storage: Storage, parked: Lease | None, image: str, shape: Shape) -> Lease | None:
    """Take a parked VM, unless it is gone."""
    return None if parked is None else storage.leases.assign_preview(parked.id, image, shape)
