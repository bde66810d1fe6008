"""The cached disks of an organization (engine.md, "Cache across builds")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from api.bodies import answer
from api.fields import StoredRecord, Timestamp
from api.openapi.operations import Answer, operation
from storage import JsonModel, Role

if TYPE_CHECKING:
    import falcon

    import storage
    from api.middleware.authentication import Access
    from storage import Storage

__all__ = ["CacheEntryRecord", "CachesResource"]


class CacheEntryRecord(StoredRecord):
    """A cached disk, and the job that left it.

    ``name`` is made by the service of all that can change what the job does; ``key`` is the part that the pipeline
    gives. ``bytes`` is the disk's size beyond the disk below it, null until it is measured; ``hits`` are the jobs that
    it saved.
    """

    pipeline: str
    name: Annotated[str, Field(examples=["b1946ac92492d2347c6235b4d2611184e7d1a1f0c7e5b0f6a4f86d2f2c1c1f0a"])]
    key: Annotated[str, Field(examples=["9f2c41d6a0b8e37f"])]
    image: str
    job: str
    build_number: int
    bytes: int | None
    hits: int
    created_at: Timestamp
    last_used_at: Timestamp

    @classmethod
    def of(cls, entry: storage.CacheEntry) -> CacheEntryRecord:
        """Return the record of an entry."""
        return cls.showing(entry, pipeline=entry.pipeline_slug, job=entry.job_name)


class CacheListRecord(JsonModel):
    """The cached disks of an organization."""

    data: list[CacheEntryRecord]


class CachesResource:
    """``/api/v0/organizations/{org}/caches`` and ``…/pipelines/{pipeline}/cache``."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._cache = storage.cache
        self._access = access

    @operation("listCaches", Answer(200, "The disks.", CacheListRecord), errors=("organization_not_found",))
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the cached disks of all pipelines, least recently used first: they are evicted first."""
        organization = self._access.member(req, org).organization
        entries = self._cache.entries(organization.slug)
        answer(resp, CacheListRecord(data=[CacheEntryRecord.of(each) for each in entries]))

    @operation(
        "clearPipelineCache",
        Answer(204, "The cache is empty."),
        errors=("organization_not_found", "pipeline_not_found", "insufficient_org_role"),
    )
    def on_delete_of_pipeline(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Empty the cache of a pipeline; needs the role admin.

        Disks are removed as soon as no unfinished build needs them.
        """
        member, found = self._access.pipeline(req, org, pipeline)
        member.require(Role.ADMIN)
        self._cache.drop(self._cache.entries(member.organization.slug, found.slug))
        resp.status = 204
