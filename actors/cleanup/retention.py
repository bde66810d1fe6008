"""Retention of logs, artifacts, sources and the audit, by age and size (engine.md, "Logs")."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from actors.settings import RetentionSettings
    from storage import KeptFiles, Retention, Storage

_BATCH = 100
_DAY = timedelta(days=1)
_GB = 2**30


@immutable
class ExpiredTotal:
    """The expired part of one kind: a number of builds, and of bytes."""

    builds: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, parts: Iterable[KeptFiles]) -> ExpiredTotal:
        """Return the sum of some parts."""
        sizes = [part.bytes for part in parts]
        return cls(len(sizes), sum(sizes))

    def __add__(self, other: ExpiredTotal) -> ExpiredTotal:
        """Return the sum of both."""
        return ExpiredTotal(self.builds + other.builds, self.bytes + other.bytes)


@immutable
class Expired:
    """The files of each kind that were removed, or are due, by its name; ``audit`` counts entries."""

    files: Mapping[str, ExpiredTotal]
    audit: int = 0


def due(oldest_first: Iterable[KeptFiles], before: datetime | None, excess: int) -> Iterator[KeptFiles]:
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
    audit = storage.audit.expirable(now - settings.audit_days * _DAY) if settings.audit_days else 0
    return Expired({rule.kind: ExpiredTotal.of(rule.due(now)) for rule in _rules(storage, settings)}, audit)


def expire(storage: Storage, settings: RetentionSettings, now: datetime) -> Expired:
    """Remove what is due, and what an earlier process began to remove."""
    audit = storage.audit.expire(now - settings.audit_days * _DAY) if settings.audit_days else 0
    return Expired({rule.kind: rule.expire(now) for rule in _rules(storage, settings)}, audit)


def free_sources(storage: Storage, lacking: int) -> ExpiredTotal:
    """Remove the sources of the builds that finished first, until ``lacking`` bytes are freed."""
    storage.source_retention.measure()
    going = list(due(storage.source_retention.oldest_first(), None, lacking))
    storage.source_retention.expire(going)
    return ExpiredTotal.of(going)


@immutable
class _Rule:
    """The age limit and the budget of one kind."""

    kind: str
    retention: Retention
    days: int
    gb: float

    def due(self, now: datetime) -> Iterator[KeptFiles]:
        before = now - self.days * _DAY if self.days else None
        excess = self.retention.bytes() - int(self.gb * _GB) if self.gb else 0
        return due(self.retention.oldest_first(), before, excess)

    def expire(self, now: datetime) -> ExpiredTotal:
        self.retention.finish_expiring()
        removed, expired = ExpiredTotal(), self.due(now)
        while batch := list(islice(expired, _BATCH)):
            self.retention.expire(batch)
            removed += ExpiredTotal.of(batch)
        return removed


def _rules(storage: Storage, settings: RetentionSettings) -> tuple[_Rule, ...]:
    """Return the rule of each kind, after measuring the files of builds that finished since the last time."""
    storage.log_retention.measure()
    storage.source_retention.measure()
    return (
        _Rule("logs", storage.log_retention, settings.logs_days, settings.logs_gb),
        _Rule("artifacts", storage.artifact_retention, settings.artifacts_days, settings.artifacts_gb),
        _Rule("sources", storage.source_retention, settings.sources_days, settings.sources_gb),
    )
