"""Which image of a store a job gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from actors.vms.images.store import ImageStore

__all__ = ["STANDARD", "Images", "resolve"]

STANDARD = "debian:12"
"""The default image where nobody says another one."""

_TO_DEFAULT = "default"


def resolve(name: str | None, present: Collection[str], default: str, mapping: Mapping[str, str]) -> str:
    """Say which image a job gets: the default where it names none, its own where it is there, else what is mapped.

    What is mapped to ``"default"`` gets the default. An image that is neither there nor mapped is returned as it is: to
    look it up then fails with its name.
    """
    if name is None:
        return default
    if name in present:
        return name
    return default if mapping.get(name) == _TO_DEFAULT else mapping.get(name, name)


@dataclass(frozen=True, slots=True)
class Images:
    """The images as jobs see them: a store, the default, and the names that others stand in for.

    The default is the configured one; where none is, the one chosen in the store, which may change at any time.
    """

    store: ImageStore
    configured: str | None
    mapping: Mapping[str, str]

    @property
    def default(self) -> str:
        """The image of steps that name none."""
        return self.configured or self.store.default() or STANDARD

    def resolve(self, name: str | None) -> str:
        """Say which image a job gets that names this one, or none; see `resolve`."""
        return resolve(name, self.store.names(), self.default, self.mapping)

    def sweep(self) -> None:
        """Remove what the dead have left of images that they were making; see `ImageStore.sweep`."""
        self.store.sweep()

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        return self.store.path(name)

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the variables that an image's maker wants every program in it to have. Raises ImageNotFound."""
        return self.store.get(name).environment
