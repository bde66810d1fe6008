"""The cached disks of an organization (engine.md, "Cache across builds")."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - a command reads the annotations
from typing import Annotated

from api.operations.operation import DELETE, GET, Call, Whole, done, operation, owners_operation
from api.operations.things import ORGANIZATION, PIPELINE, ThisMembership, ThisPipeline, member_organization
from storage import CacheEntry, Role, described, immutable


@immutable
class CacheSelection:
    """The cached disks of an organization and of pipelines of this slug; of all by default."""

    org: str | None = described("Only disks of this organization.", default=None, word="ORG")
    pipeline: str | None = described("Only disks of pipelines with this slug.", default=None, word="SLUG")


@immutable
class CacheUse:
    """The use of cached disks."""

    entries: int
    bytes: int
    hits: int


@immutable
class KeptFolderUse:
    """A folder that jobs of a pipeline keep for later ones: its size in bytes, and the job that left it."""

    organization: str
    pipeline: str
    scope: str
    branch: str
    left_by: str
    bytes: int
    created_at: datetime
    last_used_at: datetime


@immutable
class ClearedCaches:
    """The number of entries that were removed, and of disks that were deleted."""

    entries: int
    freed: int


CacheList = Annotated[list[CacheEntry], Whole("The cached disks of an organization.", "CacheList")]


@operation("listCaches", GET, f"{ORGANIZATION}/caches", "The disks.")
def list_caches(call: Call, member: ThisMembership) -> CacheList:
    """List the cached disks of all pipelines, least recently used first: they are evicted first."""
    return call.storage.cache.entries(member.organization.slug)


@operation("clearPipelineCache", DELETE, f"{PIPELINE}/cache", done("The cache is empty."), role=Role.ADMIN)
def clear_pipeline_cache(call: Call, member: ThisMembership, pipeline: ThisPipeline) -> None:
    """Empty the cache of a pipeline; needs the role admin.

    Disks are removed as soon as no unfinished build needs them, and folders that its jobs keep at once.
    """
    call.storage.cache.drop(call.storage.cache.entries(member.organization.slug, pipeline.slug))
    folders = call.storage.kept_folders
    folders.drop(each for each in folders.all() if each.pipeline_id == pipeline.id)


@owners_operation("listCachedDisks", GET, "/caches")
def list_cached_disks(call: Call, body: CacheSelection) -> CacheList:
    """List the selected disks of all organizations, least recently used first."""
    return _selected(call, body)


@owners_operation("getCacheUse", GET, "/caches/use")
def get_cache_use(call: Call, body: CacheSelection) -> CacheUse:
    """Count the selected disks, their bytes with the disks below them, and the jobs that they saved."""
    from actors.cleanup import SnapshotForest  # noqa: PLC0415 - what makes VMs, which a list needs not

    entries = _selected(call, body)
    used_bytes = SnapshotForest(call.storage.snapshots.all()).bytes(entry.snapshot for entry in entries)
    return CacheUse(len(entries), used_bytes, sum(entry.hits for entry in entries))


@owners_operation("listKeptFolders", GET, "/caches/folders")
def list_kept_folders(call: Call) -> Annotated[list[KeptFolderUse], "The folders, the longest unused first."]:
    """List the folders that jobs keep, the longest unused first: they are evicted first."""
    slugs = {each.id: each.slug for each in call.storage.organizations.all()}
    folders = call.storage.kept_folders.all()
    pipelines = {each: call.storage.pipelines.by_id(each) for each in {folder.pipeline_id for folder in folders}}
    return [
        KeptFolderUse(
            organization=slugs.get(each.organization_id, ""),
            pipeline=pipeline.slug,
            scope=each.scope,
            branch=each.branch,
            left_by=each.left_by,
            bytes=each.file_size,
            created_at=each.created_at,
            last_used_at=each.last_used_at,
        )
        for each in folders
        if (pipeline := pipelines[each.pipeline_id]) is not None
    ]


@owners_operation("clearCaches", DELETE, "/caches")
def clear_caches(call: Call, body: CacheSelection) -> ClearedCaches:
    """Forget the selected disks, and delete all that no unfinished build needs."""
    from actors.cleanup import free_disks  # noqa: PLC0415 - as above

    dropped = _selected(call, body)
    call.storage.cache.drop(dropped)
    return ClearedCaches(len(dropped), free_disks(call.storage, call.box.providers))


def _selected(call: Call, selection: CacheSelection) -> list[CacheEntry]:
    """Return the selected disks. Raises ApiError ``organization_not_found``."""
    if selection.org is not None:
        member_organization(call.storage, call.caller, selection.org)
    return call.storage.cache.entries(selection.org, selection.pipeline)
