"""Clocks and instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from storage import SystemClock
from storage.database.clock import from_micros, to_micros


def test_the_hosts_clock_has_utc_and_a_monotonic_time():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert clock.monotonic() <= clock.monotonic()


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_stored_to_the_microsecond(instant: datetime):
    assert from_micros(to_micros(instant)) == instant


def test_an_instant_of_another_zone_is_the_same_instant():
    elsewhere = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert from_micros(to_micros(elsewhere)) == datetime(2026, 1, 1, tzinfo=UTC)
