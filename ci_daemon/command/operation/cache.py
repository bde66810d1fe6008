"""`ci-daemon cache`: the cached disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from actors.cleanup import SnapshotForest, free_disks
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.providers import open_images, open_providers
from ci_daemon.terminal.counts import counted
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage import CacheEntry, Storage

F = TypeVar("F", bound="Callable[..., object]")

_MIB = 2**20
_COLUMNS = ("key", "organization", "pipeline", "job", "build", "image", "mib", "hits", "last_used_at")
_KEY_PREFIX = 16


def _filter_options(command: F) -> F:
    """Add the options that select entries by organization and pipeline."""
    pipeline = click.option("--pipeline", metavar="SLUG", help="Only disks of pipelines with this slug.")
    return click.option("--org", metavar="ORG", help="Only disks of this organization.")(pipeline(command))


@click.group(cls=Group)
def cache() -> None:
    """Cached disks of jobs, for later builds."""


@cache.command(name="list", reads=True)
@_filter_options
@pass_session
def list_entries(session: Session, *, org: str | None, pipeline: str | None) -> None:
    """List the cached disks, the least recently used first: they are evicted first.

    The size is that of a disk without the one below it; it is measured soon after a disk is stored.
    """
    with session.storage() as storage:
        documents = [_document(entry) for entry in _entries(storage, org, pipeline)]
    if not session.json:
        documents = [{**each, "key": str(each["key"])[:_KEY_PREFIX]} for each in documents]
    session.table(documents, _COLUMNS, "nothing is cached")


@cache.command(reads=True)
@_filter_options
@pass_session
def stats(session: Session, *, org: str | None, pipeline: str | None) -> None:
    """Show the number of cached disks, their size including the disks below them, and their cache hits."""
    max_bytes = session.config().cache.max_bytes
    with session.storage() as storage:
        entries = _entries(storage, org, pipeline)
        used_bytes = SnapshotForest(storage.snapshots.all()).bytes(entry.snapshot for entry in entries)
    hits = sum(entry.hits for entry in entries)
    session.answer(
        {"entries": len(entries), "bytes": used_bytes, "max_bytes": max_bytes, "hits": hits},
        f"{counted(len(entries), 'cached disk')}: {used_bytes // _MIB} of {max_bytes // _MIB} MiB,"
        f" {counted(hits, 'job')} saved",
    )


@cache.command()
@_filter_options
@pass_session
def clear(session: Session, *, org: str | None, pipeline: str | None) -> None:
    """Empty the cache, and delete the disks that no unfinished build needs. The service may run."""
    config = session.config()
    with session.storage() as storage:
        entries = _entries(storage, org, pipeline)
        storage.cache.drop(entries)
        providers = open_providers(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
        freed = free_disks(storage, providers)
    session.answer(
        {"entries": len(entries), "freed": freed},
        f"removed {counted(len(entries), 'cache entry', 'cache entries')} and freed {counted(freed, 'disk')}",
    )


def _entries(storage: Storage, org: str | None, pipeline: str | None) -> list[CacheEntry]:
    """Return the selected entries. Raises Failure if the organization does not exist."""
    if org is not None and storage.organizations.by_slug(org) is None:
        raise Failure(f"there is no organization {org}: `ci-daemon org list` shows all")
    return storage.cache.entries(org, pipeline)


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
