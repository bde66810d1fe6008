"""Clocks of tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage import SystemClock


class ManualClock:
    """A clock that stands still until a test advances it."""

    def __init__(self, now: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) -> None:
        self._now = now
        self._monotonic = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def set_ahead(self, **span: float) -> None:
        """Set the wall clock ahead by a span as `timedelta` takes it, or back if it is negative."""
        self._now += timedelta(**span)

    def advance(self, seconds: float = 0.0, **span: float) -> datetime:
        """Advance both times by some seconds and by a span as `timedelta` takes it; return the new time."""
        passed = timedelta(seconds=seconds, **span)
        self._now += passed
        self._monotonic += passed.total_seconds()
        return self._now


class LaterClock(SystemClock):
    """A clock that is ahead: by two hours, so that unfinished work counts as abandoned, or by more."""

    def __init__(self, by: timedelta = timedelta(hours=2)) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


class PassingClock(SystemClock):
    """A clock that runs, and that a test sets ahead as if time had passed."""

    def __init__(self) -> None:
        self._passed = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return super().monotonic() + self._passed

    def advance(self, seconds: float) -> None:
        """Let some seconds pass."""
        self._passed += seconds
