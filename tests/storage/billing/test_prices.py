from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import BillingSettings, Shape
from storage.billing.prices import cost_cents

_COUNTS = st.integers(1, 64)
_SHAPES = st.builds(Shape, cpu=_COUNTS, memory_gb=_COUNTS, disk_gb=_COUNTS)


@pytest.mark.parametrize(
    ("shape", "seconds", "cents"),
    [
        (Shape(2, 4, 20), 0, 0),
        (Shape(2, 4, 20), 23, 0),
        (Shape(2, 4, 20), 24, 1),
        (Shape(2, 4, 20), 3600, 151),
        (Shape(1, 1, 1), 1_000_000, 15_100),
    ],
)
def test_a_lease_costs_whole_cents_rounded_down(shape: Shape, seconds: int, cents: int):
    assert cost_cents(BillingSettings(), shape, seconds) == cents


@given(_SHAPES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_time_in_two_pieces_never_costs_more_than_in_one(shape: Shape, first: int, second: int):
    rates = BillingSettings()
    together = cost_cents(rates, shape, first + second)
    assert together - 1 <= cost_cents(rates, shape, first) + cost_cents(rates, shape, second) <= together


def test_rates_of_nothing_are_free():
    assert BillingSettings(0, 0, 0).free
    assert not BillingSettings(0, 0, 1).free
    assert not BillingSettings(5, 5, 5).free
    assert cost_cents(BillingSettings(0, 0, 0), Shape(64, 64, 64), 10**9) == 0
