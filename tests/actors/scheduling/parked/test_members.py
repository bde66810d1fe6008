"""Parked VMs on the members of a cluster: a fork takes one where its parent's disk is."""

from __future__ import annotations

from tests.actors.scheduling.parked.conftest import HostOf, ParkingHost
from tests.e2e.pipelines import Graph

GRAPH = Graph().step("parent", "echo made > file").step("child", "cat file", builds_in="parent").ir()


class FirstOn(dict[str, str]):
    """Puts the VM that is asked for first on m1, and all others on another member."""

    def __init__(self, others: str) -> None:
        super().__init__()
        self._others = others

    def get(self, vm_id: str, _default: object = None) -> str:
        return self.setdefault(vm_id, self._others if self else "m1")


def begun(host_of: HostOf, others: str) -> ParkingHost:
    host = host_of(cores=2, parked=2)
    host.parking.members = FirstOn(others)
    host.engine.start()
    host.parked(2)
    return host


def test_a_fork_takes_no_parked_vm_of_another_member(host_of: HostOf):
    host = begun(host_of, others="m2")
    build = host.build(GRAPH)
    assert host.finish(build).state == "passed"
    assert host.taken(build, "parent").uuid in host.parking.begun
    assert host.taken(build, "child").uuid not in host.parking.begun
    assert [host.taken(build, key).member for key in ("parent", "child")] == ["m1", "m2"]
    assert host.log(build, "parent") == b"this job runs on the member m1\n"


def test_a_fork_takes_a_parked_vm_of_its_parents_member(host_of: HostOf):
    host = begun(host_of, others="m1")
    build = host.build(GRAPH)
    assert host.finish(build).state == "passed"
    assert {host.taken(build, key).uuid for key in ("parent", "child")} <= set(host.parking.begun)
    assert [host.taken(build, key).member for key in ("parent", "child")] == ["m1", "m1"]
