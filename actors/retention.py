"""How long the logs of finished builds are kept, and how many of them (engine.md, "Logs")."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from storage import KeptLogs, Storage

__all__ = ["RetentionSettings", "Share", "due", "due_logs", "expire_logs"]

_BATCH = 100
_DAY = timedelta(days=1)
_GB = 2**30
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Section ``[retention]``: what is kept of finished builds. 0 days are for ever, 0 GB are no budget.

    Over its budget a kind is removed from the build on that finished first. Builds and the ledger stay whatever goes.
    """

    logs_days: int = 90
    logs_gb: float = 0.0
    artifacts_days: int = 90
    artifacts_gb: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= _MOST:
                raise ValueError(f"{field.name} must be from 0 to {_MOST}")


class Kept(Protocol):
    """Something of a finished build that takes ``bytes`` on the disk."""

    @property
    def finished_at(self) -> datetime:
        """When its build finished."""
        ...

    @property
    def bytes(self) -> int:
        """What it takes."""
        ...


T = TypeVar("T", bound=Kept)


@dataclass(frozen=True, slots=True)
class Share:
    """What goes of one kind: so many of them, so many bytes."""

    count: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, parts: Iterable[Kept]) -> Share:
        """Add up."""
        sizes = [part.bytes for part in parts]
        return cls(len(sizes), sum(sizes))

    def __add__(self, other: Share) -> Share:
        """Return both together."""
        return Share(self.count + other.count, self.bytes + other.bytes)


def due(oldest_first: Iterable[T], before: datetime | None, excess: int) -> Iterator[T]:
    """Yield what is to go: all from before an instant, and then more until ``excess`` bytes are saved."""
    for each in oldest_first:
        old = before is not None and each.finished_at < before
        if not old and excess <= 0:
            return
        if old or each.bytes:
            excess -= each.bytes
            yield each


def due_logs(storage: Storage, settings: RetentionSettings, now: datetime) -> Iterator[KeptLogs]:
    """Yield the logs that are due, having measured those of builds that finished since the last time."""
    logs = storage.log_retention
    logs.measure()
    excess = logs.bytes() - int(settings.logs_gb * _GB) if settings.logs_gb else 0
    yield from due(logs.oldest_first(), _before(now, settings.logs_days), excess)


def expire_logs(storage: Storage, settings: RetentionSettings, now: datetime) -> Share:
    """Remove the logs that are due, and what an earlier process began to remove."""
    storage.log_retention.finish_expiring()
    removed = Share()
    logs = due_logs(storage, settings, now)
    while batch := list(islice(logs, _BATCH)):
        storage.log_retention.expire(batch)
        removed += Share.of(batch)
    return removed


def _before(now: datetime, days: int) -> datetime | None:
    return now - days * _DAY if days else None
