"""The provider and images of the configuration, for the service and for the owner's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import vms
from actors.vms import sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.config import Config
    from storage import Clock

__all__ = ["IMAGES", "VMS", "open_images", "open_provider"]

IMAGES = "images"
VMS = "sandbox"
"""Folders of the state directory. Backups leave them out: another host makes their contents anew."""


def open_images(state_dir: Path, config: Config) -> vms.Images:
    """Return the configured images. Raises NoSubIds."""
    store = vms.ImageStore(config.images.dir or state_dir / IMAGES, sandbox.IdMap.of_caller())
    on_demand = config.images
    return vms.Images(store, config.images.default, config.images.map, on_demand, config.sandbox.base_image)


def open_provider(state_dir: Path, config: Config, images: vms.Images, clock: Clock) -> vms.Provider:
    """Return the provider of a state directory's VMs, new and existing. Raises NoSubIds."""
    return vms.SandboxProvider(
        state_dir / VMS,
        images,
        sandbox.IdMap.of_caller(),
        clock,
        config.sandbox,
        vms_at_once=2 * config.pool.host().vms + config.render.vms,  # as many wait as have jobs
        base_image=lambda: images.base,
    )
