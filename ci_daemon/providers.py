"""The provider and images of the configuration, for the service and for the owner's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.images import Images, ImageStore, OnDemand
from actors.vms.sandbox.userns import IdMap

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms import Provider
    from ci_daemon.config import Config
    from storage import Clock

__all__ = ["IMAGES", "VMS", "open_images", "open_provider"]

IMAGES = "images"
VMS = "sandbox"
"""Folders of the state directory. Backups leave them out: another host makes their contents anew."""


def open_images(state_dir: Path, config: Config) -> Images:
    """Return the configured images. Raises NoSubIds."""
    store = ImageStore(config.images.dir or state_dir / IMAGES, IdMap.of_caller())
    on_demand = OnDemand(config.images, config.sandbox)
    return Images(store, config.images.default, config.images.map, on_demand)


def open_provider(state_dir: Path, config: Config, images: Images, clock: Clock) -> Provider:
    """Return the provider of a state directory's VMs, new and existing. Raises NoSubIds."""
    # Commands that only show VMs import this module too; the provider's own imports are slow.
    from actors.vms.sandbox.provider import SandboxProvider  # noqa: PLC0415

    vms_at_once = config.pool.host().vms + config.render.vms
    return SandboxProvider(state_dir / VMS, images, IdMap.of_caller(), clock, config.sandbox, vms_at_once)
