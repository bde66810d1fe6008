"""The number of VMs that wait (engine.md, "Parked VMs")."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.actors.scheduling.parked.conftest import LONG, HostOf, many
from tests.e2e.pipelines import one
from tests.waiting import until


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
        waiting = {lease.uuid for lease in host.parked(expected)}
        until(lambda: set(host.provider.list()) == waiting, "the end of the jobs' VMs")

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
        host.parking.description = replace(host.parking.description, parks=False)
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
