"""The choice of a job's image, and the pull of an image that is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from actors.vms.images import factory
from actors.vms.images.image import Reference, is_name, login_of, private_name, public_name, registry_of
from actors.vms.provider import ImageNotFound, VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from actors.vms.images.image import ImageProgram
    from actors.vms.images.store import ImageStore
    from actors.vms.settings import ImageSettings
    from storage import RegistryAccount

STANDARD = "debian:12"
"""The default image if none is configured or chosen."""

_DEFAULT_TARGET = "default"
_DSL_DEFAULT = "ubuntu:24.04"
"""The image that the DSL puts on every root step, so a user may not have asked for it."""


def resolve(name: str | None, present: Collection[str], default: str, mapping: Mapping[str, str]) -> str:
    """Return the image of a job: the default if it names none, its own if present, else the mapped.

    A name mapped to ``"default"`` gets the default, and so does ``ubuntu:24.04`` if it is neither present nor mapped.
    Any other image that is missing is returned by its short name, to be pulled or reported as missing under it. An
    image that was pulled with a login has another name, which no job can give.
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


def _no_logins() -> Mapping[str, str]:
    return {}


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

    def resolve(self, name: str | None, logins: Callable[[], Mapping[str, str]] = _no_logins) -> str:
        """Return the image of a job that names this one, or none; see `resolve`.

        ``logins`` returns the UUIDs of the logins that the job may use, by registry. An image that is not on the host
        for everybody is that of the login, which is for nobody else.
        """
        return self._resolved(name, self._public(), logins)

    def _resolved(self, name: str | None, present: Collection[str], logins: Callable[[], Mapping[str, str]]) -> str:
        if name is not None and login_of(name) is not None:
            name = name[1:]  # of no image: a job gets those of a login by the login alone
        found = resolve(name, present, self.default, self.mapping)
        if found in present or found == self.default or (registry := registry_of(found)) is None:
            return found
        login = logins().get(registry)
        return found if login is None else private_name(login, found)

    def _public(self) -> set[str]:
        return {each for each in self.store.names() if login_of(each) is None}

    def is_substitute(self, name: str, used: str) -> bool:
        """Tell whether ``used`` is another image than the job names."""
        return public_name(used) not in {name, _short(name)}

    def missing(self, names: Iterable[str], logins: Callable[[], Mapping[str, str]] = _no_logins) -> dict[str, str]:
        """Return the missing images of jobs, by the names that the jobs give; see `resolve`."""
        public = self._public()
        resolved = {name: self._resolved(name, public, logins) for name in names}
        return {name: image for name, image in resolved.items() if image not in public and not self.has(image)}

    def has(self, name: str) -> bool:
        """Tell whether an image is in the store."""
        return name in self.store.names()

    def use(self, name: str) -> bool:
        """Note that a job will start from an image, which then stays for a while; False if it is missing."""
        return self.store.use(name)

    def fetch(
        self,
        name: str,
        *,
        keep_free: int,
        progress: Callable[[str], None],
        check: Callable[[], None],
        login: RegistryAccount | None = None,
    ) -> None:
        """Pull an image that a job waits for, with a login if it is one of a login. Blocks.

        The pull leaves ``keep_free`` bytes of the host's disk free; ``progress`` gets lines about it; ``check`` is
        called several times a second and aborts the pull by raising. Raises ImageNotFound if the pull is not allowed,
        InsufficientDisk, and VmError if it fails.
        """
        if self.on_demand is None or not self.on_demand.on_demand or name == self.default:
            self.store.get(name)
            return
        settings = self.on_demand
        shown = public_name(name)
        reference = Reference.parse(shown)
        if not is_name(name):
            message = f'"{shown}" cannot be stored: its name is too long, or the name of its registry is not valid'
            raise ImageNotFound(message)
        if reference.registry not in settings.registries:
            message = (
                f'"{shown}" was not pulled: the registry {reference.registry} is not in images.registries of this '
                f"service ({', '.join(settings.registries) or 'there are none'}); use an image of those registries, or "
                f"have the owner of the service add {reference.registry} to images.registries or run "
                f"`ci-daemon image pull {shown}` on its host"
            )
            raise ImageNotFound(message)
        networks = settings.allowed_networks
        options = factory.PullOptions(settings.max_bytes, settings.timeout, keep_free, progress, check, networks, login)
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
        """Return the digest of an image as `Image` has it, None if it has none or was removed by force."""
        try:
            return self.store.get(name).digest
        except ImageNotFound:
            return None
