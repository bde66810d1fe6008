"""The provider and images of the configuration, for the service and for the owner's commands."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from actors import vms
from actors.vms import sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.config import Config
    from storage import Clock

__all__ = ["IMAGES", "VMS", "has_vms", "open_images", "open_provider", "remove_vms_of_others"]

IMAGES = "images"
VMS: tuple[Literal["sandbox", "qemu"], ...] = ("sandbox", "qemu")
"""Folders of the state directory, one for each provider.

Backups leave these and the images out: another host makes their contents anew.
"""


def open_images(state_dir: Path, config: Config) -> vms.Images:
    """Return the configured images. Raises NoSubIds."""
    store = vms.ImageStore(config.images.dir or state_dir / IMAGES, sandbox.IdMap.of_caller())
    on_demand = config.images
    return vms.Images(store, config.images.default, config.images.map, on_demand, config.sandbox.base_image)


def open_provider(state_dir: Path, config: Config, images: vms.Images, clock: Clock) -> vms.Provider:
    """Return the provider of a state directory's VMs, new and existing. Raises NoSubIds."""
    ids, most = sandbox.IdMap.of_caller(), 2 * config.pool.host().vms + config.render.vms
    folder = state_dir / config.pool.provider
    if config.pool.provider == "qemu":
        return vms.QemuProvider(folder, images, ids, clock, config.qemu, config.sandbox, most, lambda: images.base)
    return vms.SandboxProvider(
        folder,
        images,
        ids,
        clock,
        config.sandbox,
        vms_at_once=most,  # as many wait as have jobs
        base_image=lambda: images.base,
    )


def has_vms(state_dir: Path) -> bool:
    """Tell whether a state directory has VMs of any provider."""
    return any((state_dir / name / "vms").is_dir() and any((state_dir / name / "vms").iterdir()) for name in VMS)


def remove_vms_of_others(state_dir: Path, config: Config, images: vms.Images, clock: Clock) -> None:
    """Destroy the VMs that another provider made before the configuration named this one. Raises VmError.

    Their jobs are tried again. Snapshots stay until that provider is back.
    """
    for name in VMS:
        if name == config.pool.provider or not (state_dir / name / "vms").is_dir():
            continue
        pool = replace(config.pool, provider=name)
        with closing(open_provider(state_dir, replace(config, pool=pool), images, clock)) as other:
            for vm_id in other.list():
                other.destroy(vm_id)
