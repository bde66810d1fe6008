"""Jobs that take parked VMs, or those that are being parked (engine.md, "Parked VMs")."""

from __future__ import annotations

import errno
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.vms import Images, ImageStore, VmError
from actors.vms.host.ids import IdMap
from storage import JobState, LeaseState
from tests.actors.conftest import Host, add_image, sandboxes
from tests.actors.scheduling.parked.conftest import LONG, HostOf, Recorded, many
from tests.e2e.pipelines import Graph, one
from tests.waiting import until


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
        until(lambda: host.parking.awaited == [vm], "the job's wait")
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
