from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from ci_daemon.host.process import adapt_switch_interval, switch_interval


@pytest.fixture
def interval() -> Iterator[float]:
    """The interpreter's own switch interval, which the test may change."""
    own = sys.getswitchinterval()
    yield own
    sys.setswitchinterval(own)


def test_few_threads_switch_sooner_than_the_interpreter_would(interval: float):
    assert threading.active_count() < 50
    adapt_switch_interval()
    assert interval > sys.getswitchinterval() == pytest.approx(0.001)


@pytest.mark.parametrize("threads", [1, 250, 1000, 6000, 100_000])
def test_the_threads_together_wake_up_a_limited_number_of_times(threads: int):
    assert threads / switch_interval(threads) <= 50_000 * 1.001
