"""A host whose lease pool parks VMs at a gate."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from actors.builds.attempt.disk_cache import DiskCache
from actors.messages import PollStorage, Reschedule
from actors.parts import VmParts
from actors.scheduling.pool import LeasePool
from actors.settings import Timings
from actors.vms import Connection, Images
from storage import Build, JobState, Lease, LeaseState
from tests.actors.conftest import Host
from tests.e2e.pipelines import Graph
from tests.memory.provider import MemoryProvider
from tests.waiting import until

LONG = "sleep 600"
SOON = Timings(retry=0.01, acquire=(0.01,), parked=0.01, rendered=600.0)


class Parking(MemoryProvider):
    """VMs in memory; the lease pool's parking waits at a gate, or raises the next of some errors."""

    def __init__(self, images: Images) -> None:
        super().__init__(images)
        self.gate = threading.Event()
        self.gate.set()
        self.errors: deque[Exception] = deque()
        self.begun: list[str] = []
        self.made_by_jobs: list[str] = []
        self.awaited: list[str] = []
        self.at_once = 0
        self._under_way = 0

    def weigh(self, vm_id: str, weight: int) -> None:
        super().weigh(vm_id, weight)
        self.awaited.append(vm_id)

    def park(self, vm_id: str) -> None:
        if not threading.current_thread().name.startswith("LeasePool"):  # a job or a render makes its own VM
            self.made_by_jobs.append(vm_id)
            super().park(vm_id)
            return
        with self._counted(vm_id) as error:
            assert self.gate.wait(60)
            if error is not None:
                raise error
            super().park(vm_id)

    @contextmanager
    def _counted(self, vm_id: str) -> Iterator[Exception | None]:
        """Count a parking that is under way, and yield the error that it is to raise."""
        with self._world.lock:
            self.begun.append(vm_id)
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
            error = self.errors.popleft() if self.errors else None
        try:
            yield error
        finally:
            with self._world.lock:
                self._under_way -= 1


class ParkingHost(Host):
    """A host whose pool parks at a gate."""

    parking: Parking

    def parked(self, number: int) -> list[Lease]:
        """Wait until a number of VMs are parked and no others are being made; return their leases."""

        def look() -> tuple[list[Lease]] | None:
            idle = [lease for lease in self.storage.leases.live() if lease.job_id is None]
            ready = len(idle) == number and all(lease.state is LeaseState.PARKED for lease in idle)
            return (idle,) if ready and all(self.provider.parked(lease.uuid) for lease in idle) else None

        (idle,) = until(look, f"{number} parked VMs")
        return idle

    def taken(self, build: Build, key: str = "only") -> Lease:
        """Wait for the lease of a job's latest attempt."""
        return until(lambda: self.storage.leases.of_job(self.job(build, key).id), f"the lease of {key}")

    def runs(self, build: Build, key: str = "only") -> None:
        until(lambda: self.job(build, key).state is JobState.RUNNING, f"{key} to run")

    def pool_is_idle(self) -> None:
        """Let the pool do all that it has to do by now."""
        self.engine.addresses.pool.ask(Reschedule())

    def poll(self) -> None:
        self.engine.addresses.pool.ask(PollStorage())


HostOf = Callable[..., ParkingHost]


@pytest.fixture
def host_of(
    tmp_path: Path, images: Images, monkeypatch: pytest.MonkeyPatch, short: threading.Event
) -> Iterator[HostOf]:
    """Make a host of some cores with settings for its pool; its engine is not started."""
    with ExitStack() as opened:

        def make(cores: int = 1, timings: Timings = SOON, **pool: Any) -> ParkingHost:
            class LeasePoolOfHost(LeasePool):
                def __init__(self, parts: VmParts, cache: DiskCache) -> None:
                    super().__init__(parts, cache=cache, cores=cores, memory_is_short=short.is_set)

            monkeypatch.setattr("actors.composition.LeasePool", LeasePoolOfHost)
            parking = Parking(images)
            host = ParkingHost(tmp_path, parking, images, timings=timings, **pool)
            host.parking = parking
            opened.callback(host.parking.gate.set)
            return opened.enter_context(closing(host))

        yield make


class Recorded(Connection):
    """A connection that notes whether it was closed from here."""

    made: ClassVar[list[Recorded]]
    closed = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made.append(self)

    def close(self) -> None:
        self.closed = True
        super().close()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """The connections that the pool makes, in their order."""
    monkeypatch.setattr(Recorded, "made", [], raising=False)
    monkeypatch.setattr("actors.scheduling.parked_vms.vms", SimpleNamespace(Connection=Recorded))
    return Recorded.made


@pytest.fixture
def short() -> threading.Event:
    """Set while the host is short of memory."""
    return threading.Event()


def many(number: int, cmd: str = "true") -> str:
    graph = Graph()
    for each in range(number):
        graph.step(f"job-{each}", cmd)
    return graph.ir()
