"""The providers and images of the configuration, for the service and for the owner's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import vms
from actors.vms import host
from actors.vms.incus import known_size
from ci_daemon.host.place import check_place
from storage import PROVIDERS

if TYPE_CHECKING:
    from pathlib import Path

    from actors.scheduling import Capacity
    from ci_daemon.config import Config
    from storage import Clock

IMAGES = "images"
VMS = PROVIDERS
"""Folders of the state directory, one for each provider, by its name.

Backups leave these and the images out: another host makes their contents anew.
"""


def open_images(state_dir: Path, config: Config) -> vms.Images:
    """Return the configured images. Raises NoSubIds."""
    store = vms.ImageStore(config.images.dir or state_dir / IMAGES, host.IdMap.of_caller())
    on_demand = config.images
    return vms.Images(store, config.images.default, config.images.map, on_demand, config.sandbox.base_image)


def open_providers(state_dir: Path, config: Config, images: vms.Images, clock: Clock) -> vms.Providers:
    """Return the providers of a state directory's VMs, new and existing. Raises NoSubIds and StateCopied."""
    check_place(state_dir)
    ids, most = host.IdMap.of_caller(), 2 * config.pool.host(vms.HostSize.here()).vms + config.render.vms

    def sandboxes() -> vms.Provider:
        return vms.SandboxProvider(
            state_dir / "sandbox",
            images,
            ids,
            clock,
            config.sandbox,
            vms_at_once=most,  # as many wait as have jobs
            base_image=lambda: images.base,
        )

    def machines() -> vms.Provider:
        return vms.QemuProvider(
            state_dir / "qemu", images, ids, clock, config.qemu, config.sandbox, most, lambda: images.base
        )

    def instances() -> vms.Provider:
        return vms.IncusProvider(
            state_dir / "incus",
            images,
            ids,
            clock,
            config.incus,
            config.sandbox,
            lambda: images.base,
            config.qemu.system,
        )

    return vms.Providers(
        {"sandbox": sandboxes, "qemu": machines, "incus": instances},
        used=[name for name in VMS if (state_dir / name).is_dir()],
    )


def pool_capacity(state_dir: Path, config: Config) -> Capacity:
    """Return the caps for all VMs together, as the pool knows them."""
    size = known_size(state_dir / "incus") if config.pool.provider == "incus" else vms.HostSize.here()
    return config.pool.host(size)


def has_vms(state_dir: Path) -> bool:
    """Tell whether a state directory has VMs of any provider."""
    return any((state_dir / name / "vms").is_dir() and any((state_dir / name / "vms").iterdir()) for name in VMS)
