"""`ci-daemon cache`: the cached disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from api.operations import caches
from ci_daemon.command.support.body_options import body_options, given
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of, timestamp

if TYPE_CHECKING:
    from storage import CacheEntry

_MIB = 2**20
_COLUMNS = ("key", "organization", "pipeline", "job", "build", "image", "mib", "hits", "last_used_at")
_KEY_PREFIX = 16


_filter_options = body_options(caches.CacheSelection, "org", "pipeline")


@click.group(cls=Group)
def cache() -> None:
    """Cached disks of jobs, for later builds."""


@cache.command(name="list", reads=True)
@_filter_options
@pass_session
def list_entries(session: Session, /, **selection: Any) -> None:  # noqa: ANN401 - fields of the body
    """List the cached disks, the least recently used first: they are evicted first.

    The size is that of a disk without the one below it; it is measured soon after a disk is stored.
    """
    with session.owners_door() as door:
        entries = door.rows(caches.list_cached_disks, {}, caches.CacheSelection(**given(selection)))
        documents = [_document(entry) for entry in entries]
    if not session.json:
        documents = [{**each, "key": str(each["key"])[:_KEY_PREFIX]} for each in documents]
    session.table(documents, _COLUMNS, "nothing is cached")


@cache.command(reads=True)
@_filter_options
@pass_session
def stats(session: Session, /, **selection: Any) -> None:  # noqa: ANN401 - fields of the body
    """Show the number of cached disks, their size including the disks below them, and their cache hits."""
    max_bytes = session.config().cache.max_bytes
    with session.owners_door() as door:
        used = door.perform(caches.get_cache_use, {}, caches.CacheSelection(**given(selection)))
    session.answer(
        {"entries": used.entries, "bytes": used.bytes, "max_bytes": max_bytes, "hits": used.hits},
        f"{counted(used.entries, 'cached disk')}: {used.bytes // _MIB} of {max_bytes // _MIB} MiB,"
        f" {counted(used.hits, 'job')} saved",
    )


@cache.command()
@_filter_options
@pass_session
def clear(session: Session, /, **selection: Any) -> None:  # noqa: ANN401 - fields of the body
    """Empty the cache, and delete the disks that no unfinished build needs. The service may run."""
    with session.owners_door() as door:
        cleared = door.perform(caches.clear_caches, {}, caches.CacheSelection(**given(selection)))
    entries, disks = counted(cleared.entries, "cache entry", "cache entries"), counted(cleared.freed, "disk")
    session.answer(document_of(cleared), f"removed {entries} and freed {disks}")


def _document(entry: CacheEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "key": entry.key,
        "organization": entry.organization_slug,
        "pipeline": entry.pipeline_slug,
        "image": entry.image,
        "job": entry.job_name,
        "build": entry.build_number,
        "bytes": entry.bytes,
        "mib": None if entry.bytes is None else entry.bytes // _MIB,
        "hits": entry.hits,
        "created_at": timestamp(entry.created_at),
        "last_used_at": timestamp(entry.last_used_at),
        "snapshot": entry.snapshot,
    }
