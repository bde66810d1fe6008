from __future__ import annotations

from datetime import UTC, datetime, timedelta

from storage import SystemClock


def test_the_hosts_clock_tells_utc_and_a_time_that_never_goes_back():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert clock.monotonic() <= clock.monotonic()
