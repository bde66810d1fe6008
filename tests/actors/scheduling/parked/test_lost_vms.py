"""Parked VMs over a restart, and those that are lost (engine.md, "Parked VMs")."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from uuid import uuid4

import pykka
import pytest

from actors.builds.attempt.assignment import spec_of
from actors.messages import Reap
from actors.scheduling.pool import LeasePool
from actors.vms import VmError
from storage import LeaseState, Shape
from tests.actors.scheduling.parked.conftest import SOON, HostOf, Recorded
from tests.e2e.pipelines import one
from tests.waiting import until


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

    def test_the_engine_has_started_when_every_vm_was_looked_at(self, host_of: HostOf, monkeypatch: pytest.MonkeyPatch):
        """The API answers then, and lists none that died (engine.md, "After a crash")."""
        host = host_of(parked=1)
        host.engine.start()
        (dead,) = host.parked(1)
        host.engine.stop()
        host.parking.crash(dead.uuid)
        host.engine, started = host.new_engine(), threading.Event()
        look = host.provider.parked

        def look_late(vm_id: str) -> bool:
            started.wait(0.5)  # in vain, if the engine waits for this
            return look(vm_id)

        monkeypatch.setattr(host.provider, "parked", look_late)
        host.engine.start()
        started.set()
        assert dead.id not in {lease.id for lease in host.storage.leases.live()}

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

    def test_a_new_pool_leaves_the_vm_of_a_preview(self, host_of: HostOf):
        host = host_of(parked=1)
        host.engine.start()
        host.parked(1)
        preview = host.storage.leases.reserve_unclaimed(str(uuid4()), host.provider.name, "debian:12", Shape())
        host.provider.create(spec_of(preview))
        address = host.engine.addresses.pool
        urn = address.urn
        address.stop()
        until(lambda: address.urn != urn, "the next pool")
        host.pool_is_idle()
        assert preview in host.storage.leases.live()
        assert preview.uuid in host.provider.list()
        host.restart()
        assert preview.uuid not in host.provider.list()
        ended = host.storage.leases.get(preview.id)
        assert ended is not None
        assert ended.state is LeaseState.ENDED


class TestALostVm:
    def test_one_that_dies_is_replaced(self, host_of: HostOf, connections: list[Recorded]):
        host = host_of(parked=1)
        host.engine.start()
        (dead,) = host.parked(1)
        host.parking.crash(dead.uuid)

        def reaped() -> bool:
            host.engine.addresses.root.post(Reap())  # a round that is under way may have looked before
            return dead.uuid not in host.provider.list()

        until(reaped, "its end")
        assert host.parked(1)[0].id != dead.id
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
