from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage import SystemClock


def test_the_hosts_clock_has_utc_and_a_monotonic_time():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert clock.monotonic() <= clock.monotonic()
