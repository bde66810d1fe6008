from __future__ import annotations

from datetime import UTC, datetime
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduling.parking import Demand, ParkedStock, divide
from storage import Lease, LeaseState, Shape

pauses = st.lists(st.floats(0, 900, allow_subnormal=False), min_size=1, max_size=60)


def lease(lease_id: int) -> Lease:
    return Lease(
        id=lease_id,
        uuid=f"vm-{lease_id}",
        organization_id=None,
        job_id=None,
        attempt=0,
        provider="memory",
        image=None,
        shape=Shape(),
        network=True,
        state=LeaseState.CREATING,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
        started_at=None,
        finished_at=None,
        amount_cents=0,
    )


FIRST, SECOND, THIRD = map(lease, (1, 2, 3))


@pytest.mark.parametrize(
    ("wanted", "parts"),
    [
        ({}, {}),
        ({"a": 9}, {"a": 8}),
        ({"a": 3, "b": 4}, {"a": 3, "b": 4}),
        ({"a": 9, "b": 9}, {"a": 4, "b": 4}),
        ({"a": 9, "b": 2}, {"a": 6, "b": 2}),
        ({"a": 9, "b": 1, "c": 9}, {"a": 3, "b": 1, "c": 4}),
    ],
)
def test_vms_are_divided_in_equal_parts_of_which_none_is_wasted(wanted: dict[str, int], parts: dict[str, int]):
    assert divide(8, wanted) == parts


class TestDemand:
    def test_nothing_taken_is_no_demand(self):
        assert Demand().peak(5.0) == 0

    def test_jobs_within_two_seconds_are_one_burst(self):
        demand = Demand()
        for now in (10.0, 11.0, 12.0, 13.5):
            demand.note(now)
        assert demand.peak(13.5) == 3

    def test_a_burst_counts_for_ten_minutes(self):
        demand = Demand()
        for now in (0.0, 0.0, 0.0, 300.0, 300.0):
            demand.note(now)
        assert [demand.peak(now) for now in (599.9, 600.0, 899.9, 900.0)] == [3, 2, 2, 0]

    @given(pauses)
    def test_it_is_the_largest_burst_of_the_last_ten_minutes(self, pauses: list[float]):
        demand = Demand()
        times = list(accumulate(pauses))
        for at, now in enumerate(times, start=1):
            demand.note(now)
            sizes = {
                each: sum(each - 2 <= other for other in times[:place]) for place, each in enumerate(times[:at], 1)
            }
            assert demand.peak(now) == max(size for each, size in sizes.items() if each > now - 600)


class TestParkedStock:
    def test_a_ready_vm_is_taken_before_one_that_is_being_made(self):
        stock = ParkedStock()
        assert stock.next() is None
        stock.begin(FIRST)
        assert stock.next() is FIRST
        stock.begin(SECOND)
        assert stock.finish(SECOND)
        assert stock.next() is SECOND
        assert stock.remove(SECOND.id) is SECOND
        assert stock.next() is FIRST
        assert stock.remove(FIRST.id) is FIRST
        assert stock.next() is None

    def test_ready_vms_and_those_being_made_are_counted(self):
        stock = ParkedStock()
        stock.adopt(FIRST)
        stock.begin(SECOND)
        assert (stock.count, stock.making) == (2, 1)
        assert [stock.lacks(wanted) for wanted in (1, 2, 3)] == [False, False, True]

    def test_a_vm_that_a_job_took_meanwhile_does_not_wait(self):
        stock = ParkedStock()
        stock.begin(FIRST)
        assert stock.remove(FIRST.id) is FIRST
        assert not stock.finish(FIRST)
        assert (stock.next(), stock.count) == (None, 0)

    def test_none_is_made_after_a_failure_until_it_is_woken(self):
        stock = ParkedStock()
        stock.begin(FIRST)
        assert stock.fail(FIRST, "full")
        assert (stock.making, stock.lacks(1)) == (0, False)
        stock.wake()
        assert stock.lacks(1)

    def test_a_reason_is_new_once_until_a_vm_was_made(self):
        stock = ParkedStock()
        told = []
        for why in ("full", "full", "broken", "full"):
            stock.begin(FIRST)
            told.append(stock.fail(FIRST, why))
        assert told == [True, False, True, True]
        stock.begin(FIRST)
        assert stock.finish(FIRST)
        stock.begin(SECOND)
        assert stock.fail(SECOND, "full")

    def test_the_failure_of_a_vm_that_a_job_took_is_the_jobs(self):
        stock = ParkedStock()
        stock.begin(FIRST)
        stock.remove(FIRST.id)
        assert not stock.fail(FIRST, "destroyed with its job")
        assert stock.lacks(1)

    def test_vms_that_are_gone_are_named(self):
        stock = ParkedStock()
        stock.adopt(FIRST)
        stock.adopt(SECOND)
        stock.begin(THIRD)
        assert stock.remove(9) is None
        assert stock.retain({SECOND.id}) == [FIRST, THIRD]
        assert (stock.next(), stock.count) == (SECOND, 1)

    def test_the_oldest_ready_ones_go_first(self):
        stock = ParkedStock()
        stock.begin(THIRD)
        stock.adopt(FIRST)
        stock.adopt(SECOND)
        assert stock.take_oldest(1) == [FIRST]
        assert stock.take_oldest(5) == [SECOND]
        assert stock.take_oldest(1) == []
        assert stock.next() is THIRD
