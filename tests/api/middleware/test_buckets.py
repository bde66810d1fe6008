from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.middleware.rate_limits import BucketState, TokenBuckets
from tests.clock import ManualClock


def test_a_minutes_worth_may_come_at_once_and_then_no_more():
    buckets = TokenBuckets(60, tracked=10, clock=ManualClock())

    assert buckets.take("a") == BucketState(granted=True, limit=60, left=59, full_in=1, retry_in=0)
    assert [buckets.take("a").granted for _ in range(60)] == [True] * 59 + [False]
    assert buckets.take("a") == BucketState(granted=False, limit=60, left=0, full_in=60, retry_in=1)
    assert buckets.take("b").left == 59


def test_it_fills_again_as_time_goes_and_never_over(clock: ManualClock):
    buckets = TokenBuckets(6, tracked=10, clock=clock)
    for _ in range(6):
        buckets.take("a")
    assert buckets.take("a").retry_in == 10
    clock.advance(9.5)
    assert buckets.take("a") == BucketState(granted=False, limit=6, left=0, full_in=51, retry_in=1)
    clock.advance(0.5)
    assert [buckets.take("a").granted for _ in range(2)] == [True, False]
    clock.advance(3600)
    assert buckets.take("a").left == 5


def test_only_so_many_are_remembered_those_that_were_asked_last(clock: ManualClock):
    buckets = TokenBuckets(2, tracked=2, clock=clock)
    for key in ("a", "a", "b", "a", "c"):
        buckets.take(key)
    assert len(buckets) == 2
    assert not buckets.take("a").granted
    for number in range(1000):
        buckets.take(str(number))
    assert len(buckets) == 2
    assert buckets.take("a").granted


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switch threads after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("frequent_switches")
def test_no_more_are_granted_to_many_threads(clock: ManualClock):
    buckets = TokenBuckets(100, tracked=2, clock=clock)
    with ThreadPoolExecutor(8) as threads:
        granted = sum(threads.map(lambda _: sum(buckets.take("a").granted for _ in range(500)), range(16)))
    assert granted == 100
