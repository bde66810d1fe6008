"""Which image of a store a job gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from actors.vms.images.store import ImageStore

__all__ = ["Images", "resolve"]


def resolve(name: str | None, present: Collection[str], default: str, mapping: Mapping[str, str]) -> str:
    """Say which image a job gets: the default where it names none, its own where it is there, else what is mapped.

    An image that is neither there nor mapped is returned as it is: to look it up then fails with its name.
    """
    if name is None:
        return default
    return name if name in present else mapping.get(name, name)


@dataclass(frozen=True, slots=True)
class Images:
    """The images as jobs see them: a store, the default, and the names that others stand in for."""

    store: ImageStore
    default: str
    mapping: Mapping[str, str]

    def resolve(self, name: str | None) -> str:
        """Say which image a job gets that names this one, or none; see `resolve`."""
        return resolve(name, self.store.names(), self.default, self.mapping)

    def sweep(self) -> None:
        """Remove what the dead have left of images that they were making; see `ImageStore.sweep`."""
        self.store.sweep()

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        return self.store.path(name)
