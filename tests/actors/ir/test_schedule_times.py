"""The times of schedules, above all where daylight saving begins and ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ir import ScheduleInvalid, ScheduleTimes

CHANGES = [
    # zone, hour that the clock skips, what runs at instead; and a time that comes twice, with its first offset
    ("Europe/Berlin", "2026-03-29 02:30", "2026-03-29T03:00+02:00", "2026-10-25 02:30", "2026-10-25T02:30+02:00"),
    ("Europe/Berlin", "2027-03-28 02:30", "2027-03-28T03:00+02:00", "2027-10-31 02:30", "2027-10-31T02:30+02:00"),
    ("Europe/London", "2026-03-29 01:15", "2026-03-29T02:00+01:00", "2026-10-25 01:15", "2026-10-25T01:15+01:00"),
    ("Europe/London", "2027-03-28 01:15", "2027-03-28T02:00+01:00", "2027-10-31 01:15", "2027-10-31T01:15+01:00"),
    ("America/New_York", "2026-03-08 02:00", "2026-03-08T03:00-04:00", "2026-11-01 01:05", "2026-11-01T01:05-04:00"),
    ("America/New_York", "2027-03-14 02:59", "2027-03-14T03:00-04:00", "2027-11-07 01:59", "2027-11-07T01:59-04:00"),
    ("Australia/Sydney", "2026-10-04 02:30", "2026-10-04T03:00+11:00", "2026-04-05 02:30", "2026-04-05T02:30+11:00"),
    ("Australia/Sydney", "2027-10-03 02:30", "2027-10-03T03:00+11:00", "2027-04-04 02:30", "2027-04-04T02:30+11:00"),
    # half an hour
    ("Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-04T02:30+11:00", "2026-04-05 01:45", "2026-04-05T01:45+11:00"),
    ("Australia/Lord_Howe", "2027-10-03 02:15", "2027-10-03T02:30+11:00", "2027-04-04 01:45", "2027-04-04T01:45+11:00"),
    # midnight does not exist, and the last hour of a day comes twice
    ("Africa/Cairo", "2026-04-24 00:00", "2026-04-24T01:00+03:00", "2026-10-29 23:30", "2026-10-29T23:30+03:00"),
    ("America/Santiago", "2026-09-06 00:30", "2026-09-06T01:00-03:00", "2026-04-04 23:30", "2026-04-04T23:30-03:00"),
]


def times_between(cron: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Return the times of a schedule, each found from the one before, as the runner does."""
    times, found = ScheduleTimes(cron, zone), []
    while (start := times.after(start)) < end:
        found.append(start)
    return found


def around(zone: str, local: str) -> tuple[str, datetime, datetime]:
    """Return the daily expression of a local time, and the ends of five days around it."""
    moment = datetime.fromisoformat(local)
    noon = moment.replace(hour=12, minute=0, tzinfo=ZoneInfo(zone))
    return f"{moment.minute} {moment.hour} * * *", noon - timedelta(days=3), noon + timedelta(days=2)


@pytest.mark.parametrize(("zone", "skipped", "instead", "_twice", "_first"), CHANGES)
def test_a_time_that_is_skipped_runs_once_after_the_gap(
    zone: str, skipped: str, instead: str, _twice: str, _first: str
):
    cron, start, end = around(zone, skipped)
    found = times_between(cron, zone, start, end)
    days = [each.astimezone(ZoneInfo(zone)).date() for each in found]

    assert datetime.fromisoformat(instead) in found
    assert len(found) == len(set(days)) == 5


@pytest.mark.parametrize(("zone", "_skipped", "_instead", "twice", "first"), CHANGES)
def test_a_time_that_comes_twice_runs_the_first_time(zone: str, _skipped: str, _instead: str, twice: str, first: str):
    cron, start, end = around(zone, twice)
    found = times_between(cron, zone, start, end)
    days = [each.astimezone(ZoneInfo(zone)).date() for each in found]

    assert datetime.fromisoformat(first) in found
    assert len(found) == len(set(days)) == 5


@pytest.mark.parametrize(("zone", "_skipped", "_instead", "twice", "first"), CHANGES)
def test_a_schedule_made_in_the_second_pass_waits_for_a_day(
    zone: str, _skipped: str, _instead: str, twice: str, first: str
):
    cron, _, _ = around(zone, twice)
    moment = datetime.fromisoformat(first).astimezone(ZoneInfo(zone))
    repeated = (moment.utcoffset() or timedelta()) - ((moment + timedelta(hours=4)).utcoffset() or timedelta())
    again = (moment.astimezone(UTC) + repeated - timedelta(minutes=5)).astimezone(UTC)
    assert again.astimezone(ZoneInfo(zone)).fold == 1
    assert ScheduleTimes(cron, zone).after(again) > again + timedelta(hours=20)


@pytest.mark.parametrize("zone", sorted({row[0] for row in CHANGES}))
def test_a_daily_time_runs_on_every_day_of_two_years(zone: str):
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for cron in ("30 2 * * *", "15 0 * * *", "59 23 * * *"):
        found = times_between(cron, zone, start, start + timedelta(days=730))
        days = [each.astimezone(ZoneInfo(zone)).date() for each in found]
        assert len(days) == len(set(days)) == 730
        assert days[-1] - days[0] == timedelta(days=729)


@pytest.mark.parametrize(("cron", "minutes"), [("*/15 * * * *", 15), ("0 * * * *", 60), ("* * * * *", 1)])
@pytest.mark.parametrize("local", ["2026-03-29 02:30", "2026-10-25 02:30"])
def test_intervals_follow_real_time(cron: str, minutes: int, local: str):
    _, start, end = around("Europe/Berlin", local)
    found = times_between(cron, "Europe/Berlin", start, end)
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=minutes)}


def test_a_time_is_in_its_zone_and_given_in_utc():
    after = ScheduleTimes("30 4 * * 1-5", "Asia/Kolkata").after(datetime(2026, 1, 2, 12, tzinfo=UTC))
    assert after == datetime(2026, 1, 4, 23, tzinfo=UTC)
    assert after.tzinfo is UTC


@pytest.mark.parametrize(
    ("cron", "says"),
    [
        ("", "expected five fields"),
        ("@daily", "expected five fields"),
        ("* * * *", "expected five fields"),
        ("0 * * * * *", "expected five fields"),
        ("60 * * * *", "the minute is wrong"),
        ("* 24 * * *", "the hour is wrong"),
        ("* * 0 * *", "the day of month is wrong, or no month has it"),
        ("0 0 30 2 *", "the day of month is wrong, or no month has it"),
        ("0 0 31 4,6,9,11 *", "the day of month is wrong, or no month has it"),
        ("0 0 */29 2 1#5", "the expression names no day of any year"),
        ("* * * 13 *", "the month is wrong"),
        ("* * * * 8", "the day of week is wrong"),
        ("*/0 * * * *", "the minute is wrong"),
        ("5-1 * * * *", "the minute is wrong"),
        ("1,,2 * * * *", "the minute is wrong"),
        ("² * * * *", "the minute is wrong"),
        ("* * * * ²L", "the day of week is wrong"),
        ("'; DROP * * *", "the minute is wrong"),
    ],
)
def test_an_expression_that_is_wrong_is_refused(cron: str, says: str):
    with pytest.raises(ScheduleInvalid, match=says) as refused:
        ScheduleTimes(cron, "UTC")
    assert refused.value.field == "cron"


@pytest.mark.parametrize(
    "zone", ["", "Berlin", "europe/berlin", "../../etc/passwd", "/etc/localtime", "Europe", "right/UTC", "UTC\0", "é"]
)
def test_a_zone_that_is_unknown_is_refused(zone: str):
    with pytest.raises(ScheduleInvalid, match="expected the name of a time zone") as refused:
        ScheduleTimes("* * * * *", zone)
    assert refused.value.field == "timezone"


@pytest.mark.parametrize("cron", ["0 0 29 2 *", "0 0 29 2 1-7", "0 0 * 2 1#5", "0 0 L * *", "0 0 * * 5L", "0 0 LW 2 *"])
def test_what_comes_rarely_is_taken(cron: str):
    assert ScheduleTimes(cron, "UTC").after(datetime(2026, 1, 1, tzinfo=UTC)).year < 2060


FIELD = st.text(alphabet="0123456789*/,-#LW", min_size=1, max_size=6)


@settings(max_examples=300)
@given(st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD), st.sampled_from(sorted(available_timezones())), st.floats(0, 40))
def test_every_text_is_refused_or_has_later_times(fields: tuple[str, ...], zone: str, years: float):
    start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=365 * years)
    try:
        times = ScheduleTimes(" ".join(fields), zone)
        first = times.after(start)
        second = times.after(first)
    except ScheduleInvalid:
        return
    assert start < first < second
    assert second - first >= timedelta(minutes=1)


def test_a_number_with_very_many_digits_is_refused():
    with pytest.raises(ScheduleInvalid, match="a number has too many digits"):
        ScheduleTimes(f"{'9' * 5000} * * * *", "UTC")
