"""Instants in the database: integer microseconds since the epoch, in UTC. Spans are microseconds too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(instant: datetime) -> int:
    """Return an aware datetime as microseconds since the epoch, without rounding errors."""
    return (instant - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return microseconds since the epoch as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=micros)
