"""Retention of logs, artifacts and the audit, by age and size (engine.md, "Logs")."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from storage import Kept, Retention, Storage

__all__ = ["Expired", "RetentionSettings", "Share", "due", "expire", "preview"]

_BATCH = 100
_DAY = timedelta(days=1)
_GB = 2**30
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Section ``[retention]``: how long logs, artifacts and the audit are kept, and how many GB of them.

    0 days is for ever, 0 GB is no budget. Over budget, the builds that finished first lose their logs or artifacts.
    Builds themselves and the ledger are always kept.
    """

    logs_days: int = 90
    logs_gb: float = 0.0
    artifacts_days: int = 90
    artifacts_gb: float = 0.0
    audit_days: int = 365

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= _MOST:
                raise ValueError(f"{field.name} must be from 0 to {_MOST}")


@dataclass(frozen=True, slots=True)
class Share:
    """The expired part of one kind: a number of builds, and of bytes."""

    builds: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, parts: Iterable[Kept]) -> Share:
        """Return the sum of some parts."""
        sizes = [part.bytes for part in parts]
        return cls(len(sizes), sum(sizes))

    def __add__(self, other: Share) -> Share:
        """Return the sum of both."""
        return Share(self.builds + other.builds, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Expired:
    """The parts of each kind that were removed, or are due; ``audit`` counts entries."""

    logs: Share
    artifacts: Share
    audit: int = 0


def due(oldest_first: Iterable[Kept], before: datetime | None, excess: int) -> Iterator[Kept]:
    """Yield what is due: everything from before an instant, then more until ``excess`` bytes are freed."""
    for each in oldest_first:
        old = before is not None and each.finished_at < before
        if not old and excess <= 0:
            return
        if old or each.bytes:
            excess -= each.bytes
            yield each


def preview(storage: Storage, settings: RetentionSettings, now: datetime) -> Expired:
    """Return what is due, without removing it."""
    logs, artifacts = _rules(storage, settings)
    audit = storage.audit.expirable(now - settings.audit_days * _DAY) if settings.audit_days else 0
    return Expired(Share.of(logs.due(now)), Share.of(artifacts.due(now)), audit)


def expire(storage: Storage, settings: RetentionSettings, now: datetime) -> Expired:
    """Remove what is due, and what an earlier process began to remove."""
    logs, artifacts = _rules(storage, settings)
    audit = storage.audit.expire(now - settings.audit_days * _DAY) if settings.audit_days else 0
    return Expired(logs.expire(now), artifacts.expire(now), audit)


@dataclass(frozen=True, slots=True)
class _Rule:
    """The age limit and the budget of one kind."""

    retention: Retention
    days: int
    gb: float

    def due(self, now: datetime) -> Iterator[Kept]:
        before = now - self.days * _DAY if self.days else None
        excess = self.retention.bytes() - int(self.gb * _GB) if self.gb else 0
        return due(self.retention.oldest_first(), before, excess)

    def expire(self, now: datetime) -> Share:
        self.retention.finish_expiring()
        removed, going = Share(), self.due(now)
        while batch := list(islice(going, _BATCH)):
            self.retention.expire(batch)
            removed += Share.of(batch)
        return removed


def _rules(storage: Storage, settings: RetentionSettings) -> tuple[_Rule, _Rule]:
    """Return the rule of each kind, after measuring the logs of builds that finished since the last time."""
    storage.log_retention.measure()
    return (
        _Rule(storage.log_retention, settings.logs_days, settings.logs_gb),
        _Rule(storage.artifact_retention, settings.artifacts_days, settings.artifacts_gb),
    )
