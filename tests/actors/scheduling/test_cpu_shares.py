"""The shares of the CPU of organizations with few and with many VMs."""

from __future__ import annotations

import pytest

from actors.scheduling.cpu_shares import CpuShares
from actors.vms import Images, VmSpec
from storage import JobState
from tests.actors.conftest import Host
from tests.clock import ManualClock
from tests.e2e.pipelines import one
from tests.memory.provider import MemoryProvider
from tests.waiting import until

MANY, ONE = 1, 2


class Sharing:
    """A provider with VMs that run, and the shares of their organizations."""

    def __init__(self, images: Images) -> None:
        self.provider = MemoryProvider(images)
        self.clock = ManualClock()
        self.shares = CpuShares(self.clock)

    def start(self, organization_id: int, *vm_ids: str) -> None:
        for vm_id in vm_ids:
            self.provider.create(VmSpec(vm_id, "debian:12"))
            self.shares.join(organization_id, vm_id, self.provider)

    def end(self, *vm_ids: str) -> None:
        for vm_id in vm_ids:
            self.provider.destroy(vm_id)
            self.shares.leave(vm_id)


@pytest.fixture
def sharing(images: Images) -> Sharing:
    return Sharing(images)


def test_the_vms_of_an_organization_weigh_as_the_only_one(sharing: Sharing):
    sharing.start(ONE, "alone")
    sharing.start(MANY, "a", "b", "c", "d")
    alone, *others = sharing.provider.weights()
    assert alone == 100
    assert sum(others) == pytest.approx(100, rel=0.5)
    assert len(set(others)) <= 2


def test_the_last_vm_of_many_gets_the_whole_share(sharing: Sharing):
    names = [f"vm-{number}" for number in range(40)]
    sharing.start(MANY, *names)
    assert sum(sharing.provider.weights()) == pytest.approx(100, rel=0.5)
    sharing.end(*names[1:])
    assert sharing.provider.weights() == [100]


def test_a_vm_that_joins_or_leaves_twice_counts_once(sharing: Sharing):
    sharing.start(MANY, "a", "b")
    sharing.shares.join(MANY, "a", sharing.provider)
    assert sharing.provider.weights() == [50, 50]
    sharing.end("a")
    sharing.shares.leave("a")
    sharing.shares.leave("unknown")
    assert sharing.provider.weights() == [100]


def test_a_vm_has_its_share_while_it_is_made(sharing: Sharing):
    sharing.start(MANY, "a")
    sharing.shares.join(MANY, "b", sharing.provider)
    sharing.provider.create(VmSpec("b", "debian:12"))
    assert sharing.provider.weights() == [50, 50]


def test_a_young_vm_of_the_lighter_organization_goes_first(sharing: Sharing):
    sharing.start(MANY, "a", "b")
    sharing.clock.advance(1)
    sharing.start(ONE, "young")
    assert sharing.provider.weights() == [50, 50, 400]
    sharing.start(MANY, "c", "d")
    assert sharing.provider.weights()[3:] == [25, 25]
    sharing.clock.advance(3)
    sharing.shares.settle()
    assert sharing.provider.weights() == [25, 25, 100, 25, 25]


def test_organizations_with_as_many_vms_are_alike(sharing: Sharing):
    sharing.start(MANY, "a")
    sharing.clock.advance(5)
    sharing.start(ONE, "b")
    sharing.clock.advance(30)
    sharing.end("a")
    sharing.start(MANY, "c")
    assert sharing.provider.weights() == [100, 100]


def test_bulk_work_rests_while_a_lighter_organization_begins(sharing: Sharing):
    sharing.start(MANY, "a", "b")
    sharing.clock.advance(1)
    assert sharing.shares.rest_of(MANY, 0.1) == 0
    sharing.start(ONE, "young")
    assert sharing.shares.rest_of(MANY, 0.1) == pytest.approx(0.3)
    assert sharing.shares.rest_of(ONE, 0.1) == 0
    sharing.end("young")
    assert sharing.shares.rest_of(MANY, 0.1) == pytest.approx(0.3), "the next may begin soon"
    sharing.clock.advance(3)
    assert sharing.shares.rest_of(MANY, 0.1) == 0


def test_what_an_organization_had_long_ago_is_forgotten(sharing: Sharing):
    sharing.start(MANY, "a", "b")
    sharing.clock.advance(10)
    sharing.end("a", "b")
    sharing.clock.advance(100)
    sharing.start(MANY, "c")
    sharing.start(ONE, "d")
    assert sharing.provider.weights() == [100, 100]


def test_running_jobs_share_the_cpu_until_they_end(host: Host, provider: MemoryProvider):
    first, second = (host.build(one("sleep 600")) for _ in range(2))
    until(lambda: all(host.job(each).state is JobState.RUNNING for each in (first, second)), "running")
    assert sorted(provider.weights()) == [50, 50]
    host.engine.cancel(first.id)
    host.finish(first)
    until(lambda: provider.weights() == [100], "the whole share")
