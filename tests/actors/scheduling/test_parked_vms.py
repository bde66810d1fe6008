"""VMs that the lease pool parks, and the jobs that take them (engine.md, "Parked VMs")."""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pykka
import pytest

from actors.messages import PollStorage, Reap, Reschedule
from actors.scheduling.parked_vms import ParkedConnections
from actors.scheduling.pool import LeasePool
from actors.timings import Timings
from actors.vms import Connection, Images, ImageStore, VmError
from actors.vms.sandbox.userns import IdMap
from storage import Build, JobState, Lease, LeaseState, NewBuild
from tests.actors.conftest import Host, add_image, sandboxes
from tests.e2e.pipelines import Graph, one
from tests.memory.provider import MemoryProvider
from tests.waiting import until

LONG = "sleep 600"
SOON = Timings(retry=0.01, acquire=(0.01,), parked=0.01)


class Parking(MemoryProvider):
    """VMs in memory; the lease pool's parking waits at a gate, or raises the next of some errors."""

    def __init__(self, images: Images) -> None:
        super().__init__(images)
        self.gate = threading.Event()
        self.gate.set()
        self.errors: deque[Exception] = deque()
        self.begun: list[str] = []
        self.made_by_jobs: list[str] = []
        self.hurried: list[str] = []
        self.at_once = 0
        self._under_way = 0

    def hurry(self, vm_id: str) -> None:
        self.hurried.append(vm_id)

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
def host_of(tmp_path: Path, images: Images, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostOf]:
    """Make a host of some cores with settings for its pool; its engine is not started."""
    with ExitStack() as opened:

        def make(cores: int = 1, timings: Timings = SOON, **pool: Any) -> ParkingHost:
            monkeypatch.setattr("actors.scheduling.pool._CORES", cores)
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
    monkeypatch.setattr("actors.scheduling.parked_vms.Connection", Recorded)
    return Recorded.made


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set while the host is short of memory."""
    short = threading.Event()

    class LeasePoolOfHost(LeasePool):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments, memory_is_short=short.is_set)

    monkeypatch.setattr("actors.composition.LeasePool", LeasePoolOfHost)
    return short


def many(number: int, cmd: str = "true") -> str:
    graph = Graph()
    for each in range(number):
        graph.step(f"job-{each}", cmd)
    return graph.ir()


class TestTheStock:
    def test_one_per_core_waits_on_an_idle_host(self, host_of: HostOf):
        host = host_of(cores=3, parked=8, max_vms=8)
        host.engine.start()
        parked = host.parked(3)
        assert {lease.uuid for lease in parked} == set(host.provider.list()) == set(host.parking.begun)
        assert [(lease.image, lease.job_id) for lease in parked] == [(None, None)] * 3

    @pytest.mark.parametrize(("parked", "max_vms", "expected"), [(8, 8, 4), (3, 8, 3), (8, 3, 3), (1, 8, 1)])
    def test_as_many_wait_as_were_taken_at_once(self, host_of: HostOf, parked: int, max_vms: int, expected: int):
        """Within the caps on parked VMs and on VMs."""
        host = host_of(cores=2, parked=parked, max_vms=max_vms)
        host.engine.start()
        host.parked(min(2, parked))
        assert host.finish(host.build(many(4))).state == "passed"
        host.parked(expected)
        host.pool_is_idle()
        assert len(host.parked(expected)) == len(list(host.provider.list())) == expected

    def test_parked_vms_take_no_place_of_jobs(self, host_of: HostOf):
        host = host_of(cores=2, parked=2, max_vms=2)
        host.engine.start()
        host.parked(2)
        build = host.build(many(2, LONG))
        for key in ("job-0", "job-1"):
            host.runs(build, key)
        host.parked(2)

    def test_a_vm_that_a_job_took_is_replaced(self, host_of: HostOf):
        host = host_of(parked=1)
        host.engine.start()
        (first,) = host.parked(1)
        build = host.build(one("true"))
        assert host.finish(build).state == "passed"
        assert host.taken(build).id == first.id
        assert host.parked(1)[0].id != first.id

    def test_with_a_cap_of_none_none_waits(self, host_of: HostOf):
        host = host_of(cores=2, parked=0)
        host.engine.start()
        assert host.finish(host.build(one("true"))).state == "passed"
        host.pool_is_idle()
        assert host.parking.begun == []

    def test_a_reload_changes_the_cap(self, host_of: HostOf):
        host = host_of(cores=3, parked=3)
        host.engine.start()
        oldest, middle, newest = host.parked(3)
        host.engine.reconfigure(replace(host.settings, pool=replace(host.settings.pool, parked=1)))
        (left,) = host.parked(1)
        assert left.id in {oldest.id, middle.id, newest.id}
        until(lambda: list(host.provider.list()) == [left.uuid], "the others destroyed")
        host.engine.reconfigure(host.settings)
        host.parked(3)

    def test_a_provider_that_parks_none_gets_none(self, host_of: HostOf):
        host = host_of(cores=2, parked=2)
        host.parking.parks = False
        host.engine.start()
        assert host.finish(host.build(one("true"))).state == "passed"
        host.pool_is_idle()
        assert host.parking.begun == []

    def test_one_is_parked_after_the_other(self, host_of: HostOf):
        """Also while jobs run, so that it leaves the other cores to them."""
        host = host_of(cores=4, parked=4)
        host.parking.gate.clear()
        host.engine.start()
        until(lambda: len(host.parking.begun) == 1, "the first")
        host.pool_is_idle()
        host.parking.gate.set()
        host.parked(4)
        host.parking.gate.clear()
        build = host.build(many(3, LONG))
        for number in range(3):
            host.runs(build, f"job-{number}")
        until(lambda: len(host.parking.begun) == 5, "the next")
        host.pool_is_idle()
        host.parking.gate.set()
        host.parked(4)
        assert host.parking.at_once == 1

    def test_none_is_parked_while_memory_is_short(self, host_of: HostOf, short: threading.Event):
        """Those that wait are destroyed, and jobs make their own VMs."""
        short.set()
        host = host_of(cores=2, parked=2)
        host.engine.start()
        assert host.finish(host.build(one("true"))).state == "passed"
        host.pool_is_idle()
        assert host.parking.begun == []
        short.clear()
        host.pool_is_idle()
        parked = host.parked(2)
        short.set()
        host.parked(0)
        until(lambda: not list(host.provider.list()), "their end")
        assert {lease.uuid for lease in parked} == set(host.parking.begun)

    def test_a_vm_parked_as_memory_gets_short_is_destroyed(self, host_of: HostOf, short: threading.Event):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        until(lambda: host.parking.begun, "the parking's begin")
        short.set()
        host.parking.gate.set()
        host.parked(0)
        until(lambda: not list(host.provider.list()), "its end")
        assert len(host.parking.begun) == 1


class TestAJob:
    @pytest.mark.parametrize(
        "options",
        [
            {"image": "alpine:3"},
            {"runner_args": {"cpu": 4, "memory_gb": 8, "disk_gb": 40}},
            {"runner_args": {"network": "off"}},
        ],
        ids=["image", "shape", "network"],
    )
    def test_it_takes_a_ready_vm_whatever_it_wants(self, host_of: HostOf, tmp_path: Path, options: dict[str, Any]):
        add_image(tmp_path / "images", "alpine:3", {"IMAGE": "alpine"})
        host = host_of(parked=1)
        host.engine.start()
        (ready,) = host.parked(1)
        build = host.build(one("true", **options))
        assert host.finish(build).state == "passed"
        lease, job = host.taken(build), host.job(build)
        assert lease.uuid == ready.uuid
        assert (lease.image, lease.shape, lease.network) == (options.get("image", "debian:12"), job.shape, job.network)

    def test_a_fork_of_a_snapshot_takes_one_too(self, host_of: HostOf):
        host = host_of(parked=1)
        host.engine.start()
        host.parked(1)
        graph = Graph().step("parent", "echo made > file").step("child", "cat file", builds_in="parent")
        build = host.build(graph.ir())
        assert host.finish(build).state == "passed"
        assert host.log(build, "child") == b"made\n"
        assert {host.taken(build, key).uuid for key in ("parent", "child")} <= set(host.parking.begun)

    def test_the_connection_that_is_open_serves_it(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.engine.start()
        host.parked(1)
        build = host.build(one("echo begun; sleep 600"))
        host.says(build, b"begun\n")
        assert connections[0].alive
        host.engine.cancel(build.id)
        host.finish(build)
        until(lambda: connections[0].closed, "the connection closed")

    def test_it_waits_for_the_vm_that_is_being_parked(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = host.build(one("true"))
        lease = host.taken(build)
        assert (lease.uuid, lease.state, host.job(build).state) == (vm, LeaseState.CREATING, JobState.ASSIGNED)
        until(lambda: len(host.parking.begun) == 2, "the parking of the next")
        assert list(host.provider.list()) == []
        host.parking.gate.set()
        assert host.finish(build).state == "passed"
        assert host.job(build).attempt == 1
        host.parked(1)
        assert len(connections) == len(host.parking.begun) == 2

    @pytest.mark.parametrize("error", [VmError("no"), OSError(errno.EMFILE, "too many open files")])
    def test_it_makes_its_own_vm_if_that_parking_fails(
        self, host_of: HostOf, connections: list[Recorded], error: Exception
    ):
        """The pool does not try the same VM again: it would destroy that of the job."""
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.parking.errors.append(error)
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = host.build(one("echo begun; sleep 600"))
        assert host.taken(build).uuid == vm
        host.parking.gate.set()
        host.says(build, b"begun\n")
        (other,) = host.parked(1)
        assert host.parking.begun == [vm, other.uuid]
        assert host.provider.alive(vm)
        assert host.job(build).attempt == 1
        host.engine.cancel(build.id)
        assert host.finish(build).state == "canceled"
        assert len(connections) == 1

    def test_a_cancel_does_not_wait_for_the_parking(self, host_of: HostOf, connections: list[Recorded]):
        """The VM goes, and so does the connection to it."""
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = host.build(one("true"))
        assert host.taken(build).uuid == vm
        until(lambda: host.parking.hurried == [vm], "the job's wait")
        host.engine.cancel(build.id)
        assert host.finish(build, 10).state == "canceled"
        host.parking.gate.set()
        (other,) = host.parked(1)
        until(lambda: list(host.provider.list()) == [other.uuid], "the end of the job's VM")
        until(lambda: sum(not each.closed for each in connections) == 1, "the end of its connection")
        assert vm != other.uuid
        assert host.parking.made_by_jobs == []

    def test_a_stop_does_not_wait_for_it_and_the_next_goes_on(self, host_of: HostOf):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = host.build(one("true"))
        host.taken(build)
        opener = threading.Timer(0.2, host.parking.gate.set)
        opener.start()
        host.restart()
        opener.join()
        assert host.finish(build).state == "passed"
        assert (host.taken(build).uuid, host.job(build).attempt) == (vm, 1)


class TestARender:
    def asked_for(self, host: ParkingHost) -> Build:
        """Ask for a render, which fails in its VM."""
        new = NewBuild("main", "0" * 40, source_archive=b"")
        build = host.storage.renders.begin(host.pipeline, new, "http://127.0.0.1:1/nowhere")
        host.engine.render(build.id)
        return build

    def lease(self, host: ParkingHost, vm: str) -> Lease:
        found = host.storage.leases.by_uuid(vm)
        assert found is not None
        return found

    def test_it_takes_a_ready_vm(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.engine.start()
        (ready,) = host.parked(1)
        build = self.asked_for(host)
        assert host.finish(build).error_code == "render_failed"
        lease, settings = self.lease(host, ready.uuid), host.settings.render
        assert (lease.build_id, lease.image, lease.shape) == (build.id, "debian:12", settings.shape)
        until(lambda: connections[0].closed, "the end of its connection")
        host.parked(1)
        assert host.parking.made_by_jobs == []

    def test_it_waits_for_the_vm_that_is_being_parked(self, host_of: HostOf):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = self.asked_for(host)
        until(lambda: self.lease(host, vm).build_id == build.id, "its lease")
        host.parking.gate.set()
        assert host.finish(build).error_code == "render_failed"
        host.parked(1)
        assert host.parking.made_by_jobs == []

    def test_it_makes_its_own_vm_if_that_parking_fails(self, host_of: HostOf):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.parking.errors.append(VmError("no"))
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = self.asked_for(host)
        until(lambda: self.lease(host, vm).build_id == build.id, "its lease")
        host.parking.gate.set()
        assert host.finish(build).error_code == "render_failed"
        assert host.parking.made_by_jobs == [vm]

    def test_a_cancel_does_not_wait_for_the_parking(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (vm,) = until(host.parking.begun.copy, "the parking's begin")
        build = self.asked_for(host)
        until(lambda: host.parking.hurried == [vm], "the render's wait")
        host.engine.cancel(build.id)
        assert host.finish(build, 10).state == "canceled"
        until(lambda: self.lease(host, vm).state is LeaseState.ENDED, "the end of its lease", 10)
        host.parking.gate.set()
        (other,) = host.parked(1)
        until(lambda: list(host.provider.list()) == [other.uuid], "the end of its VM")
        until(lambda: sum(not each.closed for each in connections) == 1, "the end of its connection")
        assert host.parking.made_by_jobs == []


class TestARestart:
    def test_parked_vms_are_taken_over(self, host_of: HostOf):
        host = host_of(cores=2, parked=2)
        host.engine.start()
        before = host.parked(2)
        host.restart()
        host.pool_is_idle()
        assert host.parked(2) == before
        build = host.build(one("echo ran"))
        assert host.finish(build).state == "passed"
        assert host.taken(build).id in {lease.id for lease in before}
        assert host.log(build) == b"ran\n"

    def test_parked_vms_that_died_meanwhile_are_replaced(self, host_of: HostOf):
        host = host_of(parked=1)
        host.engine.start()
        (dead,) = host.parked(1)
        host.engine.stop()
        host.parking.crash(dead.uuid)
        host.engine = host.new_engine()
        host.engine.start()
        until(lambda: dead.uuid not in host.provider.list(), "the dead one destroyed")
        assert host.parked(1)[0].id != dead.id

    def test_a_new_pool_destroys_what_the_last_one_half_made(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (half,) = until(host.parking.begun.copy, "the parking's begin")
        (pool,) = pykka.ActorRegistry.get_by_class(LeasePool)
        pool.stop(block=False)
        host.parking.gate.set()
        (other,) = until(lambda: [each for each in host.parked(1) if each.uuid != half], "another VM")
        until(lambda: list(host.provider.list()) == [other.uuid], "the half-made one destroyed")
        until(lambda: sum(not each.closed for each in connections) == 1, "the end of its connection")

    def test_a_new_pool_keeps_the_open_connections(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.engine.start()
        before = host.parked(1)
        address = host.engine.addresses.pool
        urn = address.urn
        address.stop()
        until(lambda: address.urn != urn, "the next pool")
        host.pool_is_idle()
        assert host.parked(1) == before
        build = host.build(one("echo begun; sleep 600"))
        host.says(build, b"begun\n")
        assert host.taken(build).id == before[0].id
        assert connections[0].alive


class TestALostVm:
    def test_one_that_dies_is_replaced(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.engine.start()
        (dead,) = host.parked(1)
        host.parking.crash(dead.uuid)
        host.engine.addresses.root.post(Reap())
        until(lambda: host.parked(1)[0].id != dead.id, "another one")
        assert host.provider.list() == [host.parked(1)[0].uuid]
        assert [each.closed for each in connections] == [True, False]

    def test_one_that_the_owner_ended_is_given_to_nobody(self, host_of: HostOf, connections: list[Recorded]):
        """As `ci-daemon lease kill` does, in another process."""
        host = host_of(parked=1)
        host.engine.start()
        (ended,) = host.parked(1)
        host.provider.destroy(ended.uuid)
        host.storage.leases.end(ended.id)
        build = host.build(one("true"))
        assert host.finish(build).state == "passed"
        assert host.taken(build).id != ended.id
        assert host.job(build).attempt == 1
        host.parked(1)
        until(lambda: [each.closed for each in connections] == [True, False], "the end of its connection")

    def test_one_that_the_owner_ends_while_it_is_parked_goes(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.parking.gate.clear()
        host.engine.start()
        (ended,) = until(host.parking.begun.copy, "the parking's begin")
        lease = host.storage.leases.by_uuid(ended)
        assert lease is not None
        host.storage.leases.end(lease.id)
        host.parking.gate.set()
        (other,) = until(lambda: [each for each in host.parked(1) if each.uuid != ended], "another VM")
        until(lambda: list(host.provider.list()) == [other.uuid], "its end")
        until(lambda: sum(not each.closed for each in connections) == 1, "the end of its connection")

    def test_the_owner_is_warned_once_of_a_failure(self, host_of: HostOf, caplog: pytest.LogCaptureFixture):
        """Parking is tried again and again until it works."""
        host = host_of(parked=1)
        host.parking.errors.extend(VmError("no image with sshd") for _ in range(4))
        with caplog.at_level(logging.WARNING, "actors.scheduling.pool"):
            host.engine.start()
            host.parked(1)
        (warning,) = caplog.records
        assert "cannot park a VM: no image with sshd" in warning.getMessage()
        assert len(set(host.parking.begun)) == 5
        failed = [host.storage.leases.by_uuid(vm) for vm in host.parking.begun[:4]]
        assert {lease.state for lease in failed if lease is not None} == {LeaseState.ENDED}

    def test_a_failure_is_not_repeated_at_once(self, host_of: HostOf):
        host = host_of(parked=1, timings=replace(SOON, parked=600.0))
        host.parking.errors.append(VmError("no"))
        host.engine.start()
        until(lambda: len(host.parking.begun) == 1 and not host.storage.leases.live(), "the failure")
        assert host.finish(host.build(one("true"))).state == "passed"
        host.pool_is_idle()
        assert len(host.parking.begun) == 1


def test_jobs_follow_the_chosen_default_image(host_of: HostOf, tmp_path: Path):
    for name in ("one", "two"):
        add_image(tmp_path / "images", name, {"IMAGE": name})
    store = ImageStore(tmp_path / "images", IdMap((), ()))
    host = host_of(parked=1)
    host.images = Images(store, None, {})
    host.engine = host.new_engine()
    host.engine.start()
    (parked,) = host.parked(1)
    store.choose("two")
    build = host.build(one('test "$IMAGE" = two'))
    assert host.finish(build).state == "passed"
    assert host.taken(build).id == parked.id


@dataclass(eq=False)
class Line:
    """A connection that is only open or closed."""

    alive: bool = True

    def close(self) -> None:
        self.alive = False


class TestConnections:
    @pytest.fixture
    def connections(self) -> ParkedConnections:
        return ParkedConnections()

    def test_who_takes_one_waits_for_it(self, connections: ParkedConnections):
        connections.expect("vm")
        taken: list[object] = []
        taker = threading.Thread(target=lambda: taken.append(connections.take("vm")))
        taker.start()
        line: Any = Line()
        connections.add("vm", line)
        taker.join(10)
        assert taken == [line]
        assert line.alive
        assert connections.take("vm") is None

    def test_of_a_vm_that_was_never_parked_there_is_none(self, connections: ParkedConnections):
        assert connections.take("vm") is None

    def test_one_that_is_no_longer_expected_is_closed(self, connections: ParkedConnections):
        line: Any = Line()
        connections.expect("vm")
        connections.discard("vm")
        connections.add("vm", line)
        assert not line.alive
        assert connections.take("vm") is None

    def test_one_that_is_discarded_is_closed(self, connections: ParkedConnections):
        line: Any = Line()
        connections.expect("vm")
        connections.add("vm", line)
        connections.discard("vm")
        connections.discard("vm")
        assert not line.alive

    def test_one_that_died_meanwhile_is_not_given(self, connections: ParkedConnections):
        line: Any = Line(alive=False)
        connections.expect("vm")
        connections.add("vm", line)
        assert connections.take("vm") is None

    def test_whatever_comes_first_none_is_left_open(self, connections: ParkedConnections):
        """One thread adds, one takes, one discards."""
        for number in range(300):
            vm, line, barrier = f"vm-{number}", Line(), threading.Barrier(3)
            taken: list[object] = []
            connections.expect(vm)
            calls: list[Callable[[], object]] = [
                lambda vm=vm, line=line: connections.add(vm, line),  # type: ignore[misc]
                lambda vm=vm, taken=taken: taken.append(connections.take(vm)),  # type: ignore[misc]
                lambda vm=vm: connections.discard(vm),  # type: ignore[misc]
            ]
            threads = [
                threading.Thread(target=lambda call=call, barrier=barrier: (barrier.wait(10), call()))  # type: ignore[misc]
                for call in calls
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
            assert taken in ([line], [None])
            assert line.alive <= (taken == [line])
            assert connections.take(vm) is None


@pytest.mark.sandbox
@pytest.mark.parametrize("moment", ["taken", "begun", "running"])
def test_a_canceled_job_leaves_nothing_of_a_sandbox(tmp_path: Path, images: Images, moment: str):
    """Its VM was parked, is being parked, or is its own."""
    with closing(Host(tmp_path, sandboxes(tmp_path, images), images, parked=2)) as host:
        host.engine.start()
        build = host.build(many(4, LONG))
        for number in range(4):
            job = f"job-{number}"
            lease = until(lambda job=job: host.storage.leases.of_job(host.job(build, job).id), "its lease")  # type: ignore[misc]
            if moment == "begun":
                until(lambda lease=lease: lease.uuid in host.provider.list(), "its VM")  # type: ignore[misc]
            elif moment == "running":
                until(lambda job=job: host.job(build, job).state is JobState.RUNNING, "its start")  # type: ignore[misc]
        host.engine.cancel(build.id)
        assert host.finish(build, 30).state == "canceled"
        until(lambda: all(lease.job_id is None for lease in host.storage.leases.live()), "the leases' end")
        until(lambda: {lease.uuid for lease in host.storage.leases.live()} == set(host.provider.list()), "the VMs' end")
        assert host.finish(host.build(one("true"))).state == "passed"
