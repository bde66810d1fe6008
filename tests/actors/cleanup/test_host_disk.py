"""The VM that fills the host's disk, and no other, is chosen to fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

from actors.cleanup.host_disk import Consumer, HostDisk, largest_consumer
from actors.vms import Connection, VmDisk, in_job
from tests.actors.conftest import Host, real_images, sandboxes
from tests.e2e.pipelines import one

GB = 2**30


def measurement(disk: HostDisk, vm: str, written: int, *, free: int, unmeasured: int = 0, limit: int = 10 * GB) -> bool:
    return disk.note(vm, VmDisk(written, unmeasured), limit, free=free, min_free=GB)


def test_the_vm_furthest_beyond_its_own_disk_is_chosen() -> None:
    within, beyond = Consumer("a", 9 * GB, 10 * GB, grown=5 * GB), Consumer("b", 3 * GB, GB, grown=GB)
    assert largest_consumer([within, beyond]) == beyond


def test_within_their_disks_the_one_that_grew_most_is_chosen() -> None:
    large, growing = Consumer("a", 9 * GB, 10 * GB, grown=0), Consumer("b", 2 * GB, 10 * GB, grown=GB)
    assert largest_consumer([large, growing]) == growing


def test_nobody_is_chosen_where_something_else_fills_the_host() -> None:
    assert largest_consumer([Consumer("a", 9 * GB, 10 * GB, grown=10 << 20)]) is None
    assert largest_consumer([]) is None


def test_a_neighbour_that_wrote_earlier_is_left_alone() -> None:
    disk = HostDisk()
    assert not measurement(disk, "a", 8 * GB, free=20 * GB)
    assert not measurement(disk, "b", 0, free=20 * GB)
    assert not measurement(disk, "a", 8 * GB, free=GB // 2)
    assert measurement(disk, "b", 6 * GB, free=GB // 2)
    assert not measurement(disk, "a", 8 * GB, free=GB // 2)


def test_another_one_is_chosen_only_when_the_first_is_gone() -> None:
    disk = HostDisk()
    measurement(disk, "a", 4 * GB, free=20 * GB)
    measurement(disk, "b", 0, free=20 * GB, limit=GB)
    assert measurement(disk, "b", 9 * GB, free=GB // 2)
    assert not measurement(disk, "a", 6 * GB, free=GB // 2)
    disk.forget("b")
    assert measurement(disk, "a", 6 * GB, free=GB // 2)


def test_a_vm_with_files_nobody_can_measure_answers_for_the_rest() -> None:
    disk = HostDisk()
    assert not measurement(disk, "honest", 0, free=20 * GB)
    assert not measurement(disk, "hiding", 0, free=20 * GB, limit=GB)
    assert not measurement(disk, "hiding", 0, free=16 * GB, limit=GB, unmeasured=4)
    assert not measurement(disk, "honest", 9 * GB, free=7 * GB)
    assert not measurement(disk, "honest", 9 * GB, free=GB // 2)
    assert measurement(disk, "hiding", 0, free=GB // 2, limit=GB, unmeasured=4)


MAPPED = """
python3 - <<'END'
import mmap, os, time
held = []
for _ in range(16):
    file = os.open("hidden", os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(64 << 20))
    held.append(mmap.mmap(file, 4096))
    os.unlink("hidden")
    os.closerange(3, 64)  # mmap keeps a descriptor of its own
    time.sleep(0.1)
time.sleep(120)
END
"""
NEIGHBOUR = "head -c 300M /dev/zero >mine; until [ -e /run/end ]; do sleep 0.2; done; echo well"


def test_the_job_that_fills_the_host_fails_alone(tmp_path: Path, images_dir: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500m", "tmpfs", place], check=True)
    try:
        images = real_images(images_dir)
        host = Host(place, sandboxes(place, images), images, min_free_disk_gb=0.5, low_disk_gb=0)
        host.engine.start()
        try:
            neighbour, hog = host.build(one(NEIGHBOUR)), host.build(one(MAPPED))
            assert host.finish(hog).state == "failed"
            assert host.job(hog).error_code == "disk_full"
            (vm,) = [each.uuid for each in host.storage.leases.live() if each.job_id == host.job(neighbour).id]
            with Connection(host.provider.connect(vm), host.clock) as connection:
                assert connection.run(in_job("touch /run/end"), timeout=60).exit_code == 0
            assert host.finish(neighbour).state == "passed"
        finally:
            host.close()
    finally:
        subprocess.run(["umount", "-l", place], check=True)
