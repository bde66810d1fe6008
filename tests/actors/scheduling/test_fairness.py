from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduling.capacity import Load
from actors.scheduling.scheduler import FairShare
from storage import QueuedJob, Shape
from tests.actors.scheduling.queued import SMALL, job


def lined(*heads: QueuedJob) -> dict[int, QueuedJob]:
    return {head.organization_id: head for head in heads}


def grants(fair_share: FairShare, heads: list[QueuedJob], number: int, now: float) -> list[int]:
    """Grant a number of VMs at one instant; return the organization of each grant."""
    turns = []
    for lease_id in range(number):
        chosen = fair_share.next(lined(*heads), now)
        fair_share.grant(1000 + lease_id, chosen.organization_id, chosen.shape, now)
        turns.append(chosen.organization_id)
    return turns


def test_who_has_used_nothing_goes_by_who_waits_longest():
    assert FairShare().next(lined(job(1, since=5), job(2, since=4)), 0.0).organization_id == 2


def test_grants_within_one_instant_take_turns():
    assert grants(FairShare(), [job(1), job(2, since=1)], 6, now=0.0) == [1, 2, 1, 2, 1, 2]


def test_grants_within_one_instant_go_by_weight():
    assert Counter(grants(FairShare(), [job(1), job(2, weight=3)], 8, now=0.0)) == {1: 2, 2: 6}


def test_a_large_vm_counts_as_many_small_ones():
    assert grants(FairShare(), [job(1, shape=Shape(cpu=4)), job(2, since=1)], 5, now=0.0) == [1, 2, 2, 2, 2]


def test_less_recent_usage_comes_first_and_usage_decays():
    fair_share = FairShare()
    fair_share.add_usage(1, cpu=1, began=0.0, ended=3600.0)
    fair_share.add_usage(2, cpu=1, began=7200.0, ended=9600.0)
    assert fair_share.next(lined(job(1), job(2)), 9600.0).organization_id == 1
    assert fair_share.usage([1], 3600.0)[1] == pytest.approx(2 * fair_share.usage([1], 7200.0)[1])


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3), st.booleans())))
def test_the_load_is_that_of_the_vms_in_use(changes: list[tuple[int, int, bool]]):
    fair_share = FairShare()
    in_use: dict[int, tuple[int, Shape]] = {}
    for lease_id, organization, granted in changes:
        shape = Shape(lease_id, organization, lease_id + organization)
        if granted:
            fair_share.grant(lease_id, organization, shape, 0.0)
            in_use[lease_id] = organization, shape
        else:
            fair_share.release(lease_id, 0.0)
            in_use.pop(lease_id, None)
    assert fair_share.load() == Load.of(shape for _, shape in in_use.values())
    for each in (1, 2, 3):
        assert fair_share.load(each) == Load.of(
            shape for organization, shape in in_use.values() if organization == each
        )


def test_a_vm_that_ended_before_it_began_counts_nothing():
    fair_share = FairShare()
    fair_share.add_usage(1, cpu=1, began=100.0, ended=10.0)
    assert fair_share.usage([1], 100.0) == {1: 0.0}


@given(st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4), st.integers(1, 64))
def test_a_vm_counts_the_same_in_one_piece_or_two(first: float, second: float, after: float, cpu: int):
    whole, parted = FairShare(), FairShare()
    whole.add_usage(1, cpu, 0.0, first + second)
    parted.add_usage(1, cpu, 0.0, first)
    parted.add_usage(1, cpu, first, first + second)
    now = first + second + after
    assert whole.usage([1], now)[1] == pytest.approx(parted.usage([1], now)[1], abs=1e-6)
    assert 0 <= whole.usage([1], now)[1] <= cpu * (first + second) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), max_size=20), st.randoms())
def test_the_order_in_which_uses_become_known_does_not_matter(spans: list[tuple[float, float]], shuffle: random.Random):
    one, other = FairShare(), FairShare()
    for began, lasted in spans:
        one.add_usage(1, 1, began, began + lasted)
    shuffle.shuffle(spans)
    for began, lasted in spans:
        other.add_usage(1, 1, began, began + lasted)
    assert one.usage([1], 3e4) == pytest.approx(other.usage([1], 3e4), abs=1e-6)


def shares(weights: dict[int, int], durations: dict[int, float], slots: int, seed: int) -> dict[int, float]:
    """Simulate two days of a full host, with endless jobs of every organization; return each one's share."""
    chance, fair_share, lease_ids = random.Random(seed), FairShare(), count()
    heads = [job(organization_id, weight=weight) for organization_id, weight in weights.items()]
    running: list[tuple[float, int, int]] = []
    had: Counter[int] = Counter()
    now = 0.0
    while now < 2 * 86_400:
        while len(running) < slots:
            chosen, lease_id = fair_share.next(lined(*heads), now).organization_id, next(lease_ids)
            fair_share.grant(lease_id, chosen, SMALL, now)
            seconds = chance.uniform(0.5, 1.5) * durations[chosen]
            had[chosen] += seconds  # type: ignore[assignment] # a Counter of floats
            heapq.heappush(running, (now + seconds, lease_id, chosen))
        now, lease_id, _ = heapq.heappop(running)
        fair_share.release(lease_id, now)
    total = sum(had.values())
    return {organization: seconds / total for organization, seconds in had.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("durations", [{1: 60.0, 2: 60.0}, {1: 120.0, 2: 900.0}, {1: 1500.0, 2: 100.0}])
@pytest.mark.parametrize(("weights", "first"), [({1: 1, 2: 1}, 1 / 2), ({1: 1, 2: 3}, 1 / 4)])
def test_long_run_shares_follow_weights_for_any_job_lengths(
    weights: dict[int, int], durations: dict[int, float], seed: int, first: float
):
    assert shares(weights, durations, slots=4, seed=seed)[1] == pytest.approx(first, abs=0.05)


def test_a_choice_costs_the_same_after_few_and_100000_leases():
    heads = lined(*(job(organization_id) for organization_id in range(1, 101)))
    few, many = seconds_to_choose(100, heads), seconds_to_choose(100_000, heads)
    assert many < few * 5


def seconds_to_choose(leases: int, heads: dict[int, QueuedJob]) -> float:
    """Return the CPU time of the shortest of 50 choices after a number of ended leases."""
    fair_share = FairShare()
    for lease in range(leases):
        fair_share.add_usage(lease % 100 + 1, 2, lease * 0.03, lease * 0.03 + 60)
    for lease in range(300):
        fair_share.grant(lease, lease % 100 + 1, SMALL, 3000.0)
    best = float("inf")
    for _ in range(50):
        start = time.thread_time()
        fair_share.next(heads, 4000.0)
        best = min(best, time.thread_time() - start)
    return best
