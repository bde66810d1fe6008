"""The instant at which a parked VM that a job took is replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from actors import JobSettings, PoolSettings
from actors.engine_settings import LiveSettings
from actors.metrics import EngineMetrics
from actors.scheduling.parked_vms import DestroyVm, ParkedConnections, ParkVm, VmParked
from actors.scheduling.parking import Parking
from storage import Lease, Storage
from tests.actors.conftest import images_in_memory, settings_with
from tests.clock import ManualClock
from tests.memory.provider import MemoryProvider
from tests.state import new_storage


class Refilled:
    """A parking whose VMs are made on request."""

    def __init__(self, storage: Storage, clock: ManualClock, provider: MemoryProvider, cores: int) -> None:
        self._begun: list[Lease] = []
        self.parking = Parking(
            storage=storage,
            provider=provider,
            connections=ParkedConnections(),
            clock=clock,
            metrics=EngineMetrics(),
            live_settings=LiveSettings(settings_with(PoolSettings(), JobSettings())),
            cores=cores,
            memory_is_short=lambda: False,
            work=self._work,
        )

    def _work(self, task: ParkVm | DestroyVm, _function: Callable[[], VmParked | None]) -> None:
        self._begun.append(task.lease)

    def make(self) -> bool:
        """Make the VM that is being parked, if there is one."""
        if not self._begun:
            return False
        self.parking.parked(self._begun.pop())
        return True

    def fill(self) -> None:
        """Park VMs until enough wait."""
        while self.parking.refill() is None and self.make():
            pass

    def take(self) -> None:
        """Give the next VM to a job."""
        lease = self.parking.next
        assert lease is not None
        self.parking.taken(lease)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def refilled(tmp_path: Path, clock: ManualClock) -> Refilled:
    storage = new_storage(tmp_path / "state", clock)
    return Refilled(storage, clock, MemoryProvider(images_in_memory(tmp_path / "images")), cores=4)


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
