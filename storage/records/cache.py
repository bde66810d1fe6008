"""What builds find of earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["CacheEntry", "CacheName"]


@dataclass(frozen=True, slots=True)
class CacheName:
    """The name of a cached disk (engine.md, "Cache across builds"); a pipeline is of one organization.

    ``image`` is the one of the store that the disk stands on, whatever the pipeline calls it.
    """

    pipeline_id: int
    image: str
    key: str


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A cached disk and the job that left it: the one called ``job_name`` of build ``build_number``.

    ``bytes`` is what the disk takes beyond the one that it stands on, None until it is measured.
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
