"""The instant at which a parked VM that a job took is replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from actors import JobSettings, PoolSettings
from actors.parts import VmParts
from actors.scheduling.parked_vms import DestroyVm, ParkVm, VmParked
from actors.scheduling.parking import Parking
from actors.settings import LiveSettings, Timings
from actors.vms import Images
from storage import Lease, LeaseState, Storage
from tests.actors.conftest import images_in_memory, settings_with
from tests.clock import ManualClock
from tests.memory.provider import MemoryProvider, only
from tests.state import new_storage


class Refilled:
    """A parking whose VMs are made on request."""

    def __init__(
        self, storage: Storage, clock: ManualClock, images: Images, cores: int, first_parked: float = 0.0
    ) -> None:
        self.storage = storage
        self._begun: list[Lease] = []
        live_settings = LiveSettings(settings_with(PoolSettings(max_vms=8), JobSettings()))
        parts = VmParts(
            storage=storage,
            providers=only(MemoryProvider(images), MemoryProvider(images, name="qemu")),
            images=images,
            clock=clock,
            live_settings=live_settings,
            timings=Timings(first_parked=first_parked),
        )
        self.parking = Parking(
            parts,
            cores=cores,
            memory_is_short=lambda: False,
            work=self._work,
        )

    def _work(self, task: ParkVm | DestroyVm, _function: Callable[[], VmParked | None]) -> None:
        if isinstance(task, ParkVm):
            self._begun.append(task.lease)
        else:
            self.storage.leases.end(task.lease.id)

    def make(self) -> bool:
        """Make the VM that is being parked, if there is one."""
        if not self._begun:
            return False
        self.parking.parked(self._begun.pop(), None)
        return True

    def fill(self) -> None:
        """Park VMs until enough wait."""
        while self.parking.refill() is None and self.make():
            pass

    def take(self, provider: str = "sandbox") -> None:
        """Give the next VM of a provider to a job, or one that the job makes itself."""
        lease = self.parking.next(provider) or self.storage.leases.reserve_parked(str(uuid4()), provider)
        self.parking.taken(lease)

    def waiting(self) -> Counter[str]:
        """Count the VMs that wait, by provider."""
        return Counter(each.provider for each in self.storage.leases.live() if each.state is LeaseState.PARKED)


@pytest.fixture
def refilled(tmp_path: Path, clock: ManualClock) -> Refilled:
    storage = new_storage(tmp_path / "state", clock)
    return Refilled(storage, clock, images_in_memory(tmp_path / "images"), cores=4)


def test_a_vm_is_replaced_once_its_job_has_begun(refilled: Refilled, clock: ManualClock):
    refilled.fill()
    refilled.take()
    assert refilled.parking.refill() == pytest.approx(0.03)
    assert not refilled.make()
    clock.advance(seconds=0.02)
    assert refilled.parking.refill() == pytest.approx(0.01)
    clock.advance(seconds=0.01)
    assert refilled.parking.refill() is None
    assert refilled.make()


def test_a_stock_that_runs_low_is_refilled_at_once(refilled: Refilled):
    refilled.fill()
    refilled.take()
    refilled.take()
    assert refilled.parking.refill() is not None
    refilled.take()
    assert refilled.parking.refill() is None
    assert refilled.make()


def test_a_full_stock_asks_for_no_next_try(refilled: Refilled):
    refilled.fill()
    assert refilled.parking.refill() is None
    assert not refilled.make()


def test_vms_of_another_provider_wait_while_jobs_take_some(refilled: Refilled, clock: ManualClock):
    """At the host's own provider one waits for each core in any case."""
    refilled.fill()
    assert refilled.waiting() == {"sandbox": 4}
    for _ in range(2):
        refilled.take("qemu")
    clock.advance(seconds=1)
    refilled.fill()
    assert refilled.waiting() == {"sandbox": 4, "qemu": 2}
    clock.advance(minutes=11)
    refilled.parking.destroy_excess()
    assert refilled.waiting() == {"sandbox": 4}


def test_a_stock_that_is_empty_waits_for_the_first_jobs(tmp_path: Path, clock: ManualClock):
    storage, images = new_storage(tmp_path / "state", clock), images_in_memory(tmp_path / "images")
    refilled = Refilled(storage, clock, images, cores=4, first_parked=0.25)
    refilled.take()
    assert refilled.parking.refill() == pytest.approx(0.25)
    assert not refilled.make()
    clock.advance(seconds=0.25)
    assert refilled.parking.refill() is None
    assert refilled.make()
