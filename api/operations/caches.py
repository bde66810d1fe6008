"""The cached disks of an organization (engine.md, "Cache across builds")."""

from __future__ import annotations

from typing import Annotated

from api.operations.operation import DELETE, GET, Call, Whole, operation
from api.operations.things import ORGANIZATION, PIPELINE, ThisMembership, ThisPipeline
from storage import CacheEntry, Role

CacheList = Annotated[list[CacheEntry], Whole("The cached disks of an organization.", "CacheList")]


@operation("listCaches", GET, f"{ORGANIZATION}/caches", "The disks.")
def list_caches(call: Call, member: ThisMembership) -> CacheList:
    """List the cached disks of all pipelines, least recently used first: they are evicted first."""
    return call.storage.cache.entries(member.organization.slug)


@operation("clearPipelineCache", DELETE, f"{PIPELINE}/cache", "The cache is empty.", status=204, role=Role.ADMIN)
def clear_pipeline_cache(call: Call, member: ThisMembership, pipeline: ThisPipeline) -> None:
    """Empty the cache of a pipeline; needs the role admin.

    Disks are removed as soon as no unfinished build needs them.
    """
    call.storage.cache.drop(call.storage.cache.entries(member.organization.slug, pipeline.slug))
