from __future__ import annotations

import pytest

from actors.test_reports import PassRate


@pytest.mark.parametrize(
    ("passed", "failed", "low", "high"),
    [(14, 6, 0.481, 0.855), (20, 0, 0.839, 1.0), (0, 20, 0.0, 0.161), (1, 0, 0.207, 1.0), (81, 19, 0.722, 0.875)],
)
def test_an_interval_is_that_of_wilson(passed: int, failed: int, low: float, high: float):
    """The values are those of Newcombe's tables (1998) and of R's `prop.test` without correction."""
    rate = PassRate.of(passed, failed)
    assert (round(rate.low, 3), round(rate.high, 3)) == (low, high)


def test_a_rate_is_said_in_words():
    assert PassRate.of(14, 6).words == "passed 14 of 20: with 95% confidence it passes in 48% to 85% of runs"
    assert PassRate.of(20, 0).words == "passed all 20: with 95% confidence it fails in at most 16% of runs"
    assert PassRate.of(0, 20).words == "failed all 20: with 95% confidence it passes in at most 16% of runs"
    assert PassRate.of(0, 0).words == "no run told anything"
