"""The providers and images of the configuration, for the service and for the owner's commands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from actors import vms
from actors.vms import host
from ci_daemon.host.place import check_place
from storage import PROVIDERS, ProviderName, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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


@immutable
class _Parts:
    """The parts of which a provider is made; of the configuration it takes the sections that it needs."""

    state_dir: Path
    config: Config
    images: vms.Images
    ids: host.IdMap
    clock: Clock
    vms_at_once: int

    def base_image(self) -> str:
        """Return the image whose sshd serves VMs."""
        return self.images.base


def _sandboxes(of: _Parts) -> vms.Provider:
    return vms.SandboxProvider(
        of.state_dir / "sandbox",
        of.images,
        of.ids,
        of.clock,
        of.config.sandbox,
        vms_at_once=of.vms_at_once,
        base_image=of.base_image,
    )


def _machines(of: _Parts) -> vms.Provider:
    settings, shared = of.config.qemu, of.config.sandbox
    folder = of.state_dir / "qemu"
    return vms.QemuProvider(folder, of.images, of.ids, of.clock, settings, shared, of.vms_at_once, of.base_image)


def _instances(of: _Parts) -> vms.Provider:
    settings, shared, system = of.config.incus, of.config.sandbox, of.config.qemu.system
    folder = of.state_dir / "incus"
    return vms.IncusProvider(folder, of.images, of.ids, of.clock, settings, shared, of.base_image, system)


_MADE_BY: Mapping[ProviderName, Callable[[_Parts], vms.Provider]] = {
    "sandbox": _sandboxes,
    "qemu": _machines,
    "incus": _instances,
}
"""Every provider that there is, by its name, which is also that of its folder."""


def open_providers(state_dir: Path, config: Config, images: vms.Images, clock: Clock) -> vms.Providers:
    """Return the providers of a state directory's VMs, new and existing. Raises NoSubIds and StateCopied."""
    check_place(state_dir)
    most = 2 * config.pool.host(vms.HostSize.here()).vms + config.render.vms  # as many wait as have jobs
    parts = _Parts(state_dir, config, images, host.IdMap.of_caller(), clock, most)
    return vms.Providers(
        {name: partial(make, parts) for name, make in _MADE_BY.items()},
        used=[name for name in VMS if (state_dir / name).is_dir()],
    )


def pool_capacity(state_dir: Path, config: Config) -> Capacity:
    """Return the caps for all VMs together, as the pool knows them."""
    size = vms.known_size(state_dir / "incus") if config.pool.provider == "incus" else vms.HostSize.here()
    return config.pool.host(size)


def has_vms(state_dir: Path) -> bool:
    """Tell whether a state directory has VMs of any provider."""
    return any((state_dir / name / "vms").is_dir() and any((state_dir / name / "vms").iterdir()) for name in VMS)
