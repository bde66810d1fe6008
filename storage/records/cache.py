"""Disks that builds keep for later ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["CacheEntry", "CacheName"]


@dataclass(frozen=True, slots=True)
class CacheName:
    """The name of a cached disk (engine.md, "Cache across builds"). The pipeline implies the organization.

    ``image`` is the image in the store that the disk starts from, not the name that the pipeline uses for it. Only VMs
    of ``provider`` can use the disk.
    """

    pipeline_id: int
    image: str
    key: str
    provider: str


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A cached disk and the job that left it: ``job_name`` of build ``build_number``.

    ``bytes`` is the size of the disk beyond the disk it starts from, None until it is measured.
    """

    id: int
    name: CacheName
    organization_slug: str
    pipeline_slug: str
    build_number: int
    job_name: str
    job_id: int
    snapshot: str
    bytes: int | None
    created_at: datetime
    last_used_at: datetime
    hits: int
