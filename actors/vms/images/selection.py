"""The choice of a job's image, and the pull of an image that is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from actors.vms.images import factory
from actors.vms.images.image import Reference, is_name
from actors.vms.provider import ImageNotFound, VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from actors.vms.images.image import ImageProgram
    from actors.vms.images.store import ImageStore
    from actors.vms.settings import ImageSettings

STANDARD = "debian:12"
"""The default image if none is configured or chosen."""

_DEFAULT_TARGET = "default"
_DSL_DEFAULT = "ubuntu:24.04"
"""The image that the DSL puts on every root step, so a user may not have asked for it."""


def resolve(name: str | None, present: Collection[str], default: str, mapping: Mapping[str, str]) -> str:
    """Return the image of a job: the default if it names none, its own if present, else the mapped.

    A name mapped to ``"default"`` gets the default, and so does ``ubuntu:24.04`` if it is neither present nor mapped.
    Any other image that is missing is returned by its short name, to be pulled or reported as missing under it.
    """
    if name is None:
        return default
    short = _short(name)
    for each in (name, short):
        if each in present:
            return each
        if each in mapping:
            target = mapping[each]
            return default if target == _DEFAULT_TARGET else target if target in present else _short(target)
    return default if short == _DSL_DEFAULT else short


def _short(name: str) -> str:
    """Return the short name of an image: ``alpine:latest`` for ``docker.io/library/alpine``."""
    try:
        return Reference.parse(name).short
    except VmError:
        return name


@immutable
class Images:
    """Images as jobs see them: the store, the default, the mapping of names, and pulls on demand.

    The default is the configured image, else the one chosen in the store, which may change at any time. Nothing is
    pulled without ``on_demand``.
    """

    store: ImageStore
    configured: str | None
    mapping: Mapping[str, str]
    on_demand: ImageSettings | None = None
    configured_base: str | None = None

    @property
    def default(self) -> str:
        """The image of steps that name none."""
        return self.configured or self.store.default() or STANDARD

    @property
    def base(self) -> str:
        """The image whose sshd serves all VMs: the configured one, else the default if it can, else debian:12.

        Only images that the owner chose: VMs trust it, whatever they run. It may be missing.
        """
        if self.configured_base is not None:
            return self.configured_base
        return self.default if self.store.can_be_base(self.default) else STANDARD

    def resolve(self, name: str | None) -> str:
        """Return the image of a job that names this one, or none; see `resolve`."""
        return resolve(name, self.store.names(), self.default, self.mapping)

    def is_substitute(self, name: str, used: str) -> bool:
        """Tell whether ``used`` is another image than the job names."""
        return used not in {name, _short(name)}

    def missing(self, names: Iterable[str]) -> dict[str, str]:
        """Return the missing images of jobs, by the names that the jobs give."""
        present, default = set(self.store.names()), self.default
        resolved = {name: resolve(name, present, default, self.mapping) for name in names}
        return {name: image for name, image in resolved.items() if image not in present}

    def use(self, name: str) -> bool:
        """Note that a job will start from an image, which then stays for a while; False if it is missing."""
        return self.store.use(name)

    def fetch(self, name: str, *, keep_free: int, progress: Callable[[str], None], check: Callable[[], None]) -> None:
        """Pull an image that a job waits for. Blocks.

        The pull leaves ``keep_free`` bytes of the host's disk free; ``progress`` gets lines about it; ``check`` is
        called several times a second and aborts the pull by raising. Raises ImageNotFound if the pull is not allowed,
        InsufficientDisk, and VmError if it fails.
        """
        if self.on_demand is None or not self.on_demand.on_demand or name == self.default:
            self.store.get(name)
            return
        settings = self.on_demand
        reference = Reference.parse(name)
        if not is_name(name):
            message = f'"{name}" cannot be stored: its name is too long, or the name of its registry is not valid'
            raise ImageNotFound(message)
        if reference.registry not in settings.registries:
            message = (
                f'"{name}" was not pulled: the registry {reference.registry} is not in images.registries of this '
                f"service ({', '.join(settings.registries) or 'there are none'}); use an image of those registries, or "
                f"have the owner of the service add {reference.registry} to images.registries or run "
                f"`ci-daemon image pull {name}` on its host"
            )
            raise ImageNotFound(message)
        networks = settings.allowed_networks
        options = factory.PullOptions(settings.max_bytes, settings.timeout, keep_free, progress, check, networks)
        self.store.pull_missing(reference, name, options)

    def retire(self, in_use: Collection[str], now: datetime, unused: timedelta | None = None) -> list[str]:
        """Remove the images that were pulled for jobs and not used for long; return their names.

        Images ``in_use`` are noted as used now, so that other services that share the store keep them. ``unused`` is
        the time without use; the default is the configured one.
        """
        days = 0 if self.on_demand is None else self.on_demand.unused_days
        present = self.store.names()
        for name in present:
            if name in in_use:
                self.store.use(name)
        if unused is None and not days:
            return []
        before = now - (timedelta(days=days) if unused is None else unused)
        kept = {*in_use, self.default, self.base}
        return [name for name in present if name not in kept and self.store.remove_unused(name, before)]

    def sweep(self) -> None:
        """Remove unfinished images of dead processes; see `ImageStore.sweep`."""
        self.store.sweep()

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        return self.store.path(name)

    def identity(self, name: str) -> str:
        """Return a text that changes when the image of a name is replaced. Raises ImageNotFound."""
        return self.store.get(name).identity

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the environment variables that an image sets for its programs. Raises ImageNotFound."""
        return self.store.get(name).environment

    def program(self, name: str) -> ImageProgram:
        """Return the program that an image starts as a service. Raises ImageNotFound."""
        return self.store.get(name).program

    def digest(self, name: str) -> str | None:
        """Return the repository and digest of an image, None if none is known. Raises ImageNotFound."""
        return self.store.get(name).digest
