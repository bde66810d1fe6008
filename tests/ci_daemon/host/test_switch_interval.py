from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from ci_daemon.host.switch_interval import adapt_switch_interval, switch_interval


@pytest.fixture
def interval() -> Iterator[float]:
    """The interpreter's own switch interval, which the test may change."""
    own = sys.getswitchinterval()
    yield own
    sys.setswitchinterval(own)


def test_few_threads_keep_the_interval_of_the_interpreter(interval: float):
    assert threading.active_count() < 200
    adapt_switch_interval()
    assert sys.getswitchinterval() == pytest.approx(interval)


@pytest.mark.parametrize("threads", [1, 250, 1000, 6000, 100_000])
def test_the_threads_together_wake_up_a_limited_number_of_times(threads: int):
    assert threads / switch_interval(threads) <= 50_000 * 1.001
