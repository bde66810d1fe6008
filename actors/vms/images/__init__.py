"""Images: root trees that VMs start from, unpacked once and never changed (engine.md, "Leases")."""

from __future__ import annotations

from actors.vms.images.choice import STANDARD, Images, OnDemand, resolve
from actors.vms.images.debian import RELEASES
from actors.vms.images.names import check_name, is_name
from actors.vms.images.reference import Reference
from actors.vms.images.room import NoRoom, PullOptions, TooLarge
from actors.vms.images.settings import ImageSettings
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
