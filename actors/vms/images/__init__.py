"""Images: root trees that VMs start from, unpacked once and never changed (engine.md, "Leases").

The store is imported on first use, because most commands only read its settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from actors.vms.images.names import check_name, is_name
from actors.vms.images.reference import Reference
from actors.vms.images.room import NoRoom, PullOptions, TooLarge
from actors.vms.images.settings import ImageSettings

if TYPE_CHECKING:
    from actors.vms.images.choice import STANDARD, Images, OnDemand, resolve
    from actors.vms.images.debian import RELEASES
    from actors.vms.images.store import Image, ImageError, ImageStore

__all__ = [
    "RELEASES",
    "STANDARD",
    "Image",
    "ImageError",
    "ImageSettings",
    "ImageStore",
    "Images",
    "NoRoom",
    "OnDemand",
    "PullOptions",
    "Reference",
    "TooLarge",
    "check_name",
    "is_name",
    "resolve",
]

_LATER = {
    "Image": "actors.vms.images.store",
    "ImageError": "actors.vms.images.store",
    "ImageStore": "actors.vms.images.store",
    "Images": "actors.vms.images.choice",
    "OnDemand": "actors.vms.images.choice",
    "RELEASES": "actors.vms.images.debian",
    "STANDARD": "actors.vms.images.choice",
    "resolve": "actors.vms.images.choice",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
