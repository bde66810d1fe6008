"""Which image of a store a job gets, and whether one that is missing is pulled for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from actors.vms.images.names import is_name
from actors.vms.images.reference import Reference
from actors.vms.images.room import PullOptions
from actors.vms.provider import ImageNotFound, VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from actors.vms.images.settings import ImageSettings
    from actors.vms.images.store import ImageStore
    from actors.vms.sandbox.settings import SandboxSettings

__all__ = ["STANDARD", "Images", "OnDemand", "resolve"]

STANDARD = "debian:12"
"""The default image where nobody says another one."""

_TO_DEFAULT = "default"
_STAMPED = "ubuntu:24.04"
"""The image that the DSL names on every root step: where it is not there, nobody has asked for it."""


def resolve(name: str | None, present: Collection[str], default: str, mapping: Mapping[str, str]) -> str:
    """Return the image that a job gets: the default where it names none, its own where it is there, else the mapped.

    An image mapped to ``"default"`` gets the default, and so does ``ubuntu:24.04``. Any other that is neither there nor
    mapped is returned by its short name, to be pulled or missed under that.
    """
    if name is None:
        return default
    short = _short(name)
    for each in (name, short):
        if each in present:
            return each
        if each in mapping:
            target = mapping[each]
            return default if target == _TO_DEFAULT else target if target in present else _short(target)
    return default if short == _STAMPED else short


def _short(name: str) -> str:
    """Return the one name of an image that may be written as ``alpine`` or ``docker.io/library/alpine:latest``."""
    try:
        return Reference.parse(name).short
    except VmError:
        return name


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Terms on which images are pulled for jobs: the configuration's, and for the VMs that finish them."""

    settings: ImageSettings
    sandbox: SandboxSettings


@dataclass(frozen=True, slots=True)
class Images:
    """The images as jobs see them: a store, the default, the names that others stand in for, and what is pulled.

    The default is the configured one; where none is, the one chosen in the store, which may change at any time. Nothing
    is pulled without ``on_demand``.
    """

    store: ImageStore
    configured: str | None
    mapping: Mapping[str, str]
    on_demand: OnDemand | None = None

    @property
    def default(self) -> str:
        """The image of steps that name none."""
        return self.configured or self.store.default() or STANDARD

    def resolve(self, name: str | None) -> str:
        """Return the image that a job gets that names this one, or none; see `resolve`."""
        return resolve(name, self.store.names(), self.default, self.mapping)

    def stands_in(self, name: str, used: str) -> bool:
        """Tell whether ``used`` is another image than the one that a job names."""
        return used not in {name, _short(name)}

    def missing(self, names: Iterable[str]) -> dict[str, str]:
        """Return the images that jobs of these names get and that are not there, by name."""
        present, default = set(self.store.names()), self.default
        resolved = {name: resolve(name, present, default, self.mapping) for name in names}
        return {name: image for name, image in resolved.items() if image not in present}

    def use(self, name: str) -> bool:
        """Note that a job is to start from an image, which then stays for a while; False where it is not there."""
        return self.store.use(name)

    def fetch(self, name: str, *, keep_free: int, progress: Callable[[str], None], check: Callable[[], None]) -> None:
        """Pull an image that a job waits for. Blocks.

        ``keep_free`` bytes of the host's disk are not for images; ``progress`` gets lines about the pull; ``check`` is
        called several times a second and ends the pull by raising. Raises ImageNotFound where that is not allowed,
        NoRoom, and VmError where it fails.
        """
        if self.on_demand is None or not self.on_demand.settings.on_demand or name == self.default:
            self.store.get(name)
            return
        settings = self.on_demand.settings
        reference = Reference.parse(name)
        if not is_name(name):
            message = f'"{name}" is too long for the name of an image, or has an address that a name cannot have'
            raise ImageNotFound(message)
        if reference.registry not in settings.registries:
            message = (
                f'"{name}" is not pulled: the registry {reference.registry} is not among images.registries of this '
                f"service ({', '.join(settings.registries) or 'there are none'}); whoever runs it can add it, or run "
                f"`ci-daemon image pull {name}`"
            )
            raise ImageNotFound(message)
        options = PullOptions(settings.max_bytes, keep_free, settings.timeout, progress, check)
        self.store.pull_missing(reference, name, self.on_demand.sandbox, options)

    def retire(self, in_use: Collection[str], now: datetime, unused: timedelta | None = None) -> list[str]:
        """Remove the images that were pulled for jobs and not used for long, and return their names.

        Those ``in_use`` are noted as used now, so that they stay for whoever shares the store. ``unused`` is for how
        long; by default as configured.
        """
        days = 0 if self.on_demand is None else self.on_demand.settings.unused_days
        present = self.store.names()
        for name in present:
            if name in in_use:
                self.store.use(name)
        if unused is None and not days:
            return []
        before = now - (timedelta(days=days) if unused is None else unused)
        kept = {*in_use, self.default}
        return [name for name in present if name not in kept and self.store.remove_unused(name, before)]

    def sweep(self) -> None:
        """Remove what the dead have left of images that they were making; see `ImageStore.sweep`."""
        self.store.sweep()

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        return self.store.path(name)

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the variables that an image's maker wants every program in it to have. Raises ImageNotFound."""
        return self.store.get(name).environment
