"""Names of images: which are names at all, how they are called on disk, and which image a job's name stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from actors.vms.images.store import ImageStore

__all__ = ["Images", "check_name", "folder_of", "name_of", "resolve"]

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(:[a-zA-Z0-9][a-zA-Z0-9._-]*)?")
_MAX_NAME = 200
_TO_FOLDER = str.maketrans({"/": "+", ":": "@"})
_TO_NAME = str.maketrans({"+": "/", "@": ":"})


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

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        return self.store.path(name)


def check_name(name: str) -> None:
    """Raise VmError where ``name`` is no name for an image, like ``debian:12`` or ``team/base``."""
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        message = (
            f'"{name[:_MAX_NAME]}" is no name for an image: use lower-case letters, digits, ".", "_" and "-", parts '
            'joined by "/", and a tag after ":"'
        )
        raise VmError(message)


def folder_of(name: str) -> str:
    """Return what an image's folder is called: mount options know ``:``, and paths know ``/``."""
    return name.translate(_TO_FOLDER)


def name_of(folder: str) -> str:
    """Return the name of the image in a folder."""
    return folder.translate(_TO_NAME)
