"""Renders that take parked VMs (engine.md, "Parked VMs")."""

from __future__ import annotations

from actors.vms import VmError
from storage import Build, Lease, LeaseState, NewBuild
from tests.actors.scheduling.parked.conftest import HostOf, ParkingHost, Recorded
from tests.waiting import until


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
        until(lambda: host.parking.awaited == [vm], "the render's wait")
        host.engine.cancel(build.id)
        assert host.finish(build, 10).state == "canceled"
        until(lambda: self.lease(host, vm).state is LeaseState.ENDED, "the end of its lease")
        host.parking.gate.set()
        (other,) = host.parked(1)
        until(lambda: list(host.provider.list()) == [other.uuid], "the end of its VM")
        until(lambda: sum(not each.closed for each in connections) == 1, "the end of its connection")
        assert host.parking.made_by_jobs == []
