"""A machine from its boot to its end; `make test-qemu` runs the whole contract on machines."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms import CommandSpec, Connection, ImageStore, QemuProvider, QemuSettings, VmSpec, in_job, start
from actors.vms.sandbox import IdMap, SandboxSettings
from actors.vms.sandbox.vm_folder import VmFolder
from storage import Shape, SystemClock
from tests.machines import share_image_disks, unpacked_kernel
from tests.waiting import until

IMAGE = "debian:12"
SECONDS = 1200.0


@pytest.fixture
def opened(tmp_path: Path, image_store: ImageStore, idmap: IdMap) -> Iterator[Callable[[], QemuProvider]]:
    """Open a provider, as each process does. At the end no machine is left."""
    folder, settings = tmp_path / "qemu", QemuSettings(system=unpacked_kernel())
    share_image_disks(folder)
    made: list[QemuProvider] = []

    def provider() -> QemuProvider:
        shared = SandboxSettings(create_seconds=SECONDS)
        made.append(QemuProvider(folder, image_store, idmap, SystemClock(), settings, shared))
        return made[-1]

    yield provider
    for vm_id in provider().list():
        made[0].destroy(vm_id)
    for each in made:
        each.close()
    shutil.rmtree(folder)


def says(connection: Connection, script: str) -> str:
    """Run a script on the job's disk, which must succeed; return its output."""
    done = connection.run(in_job(script), timeout=SECONDS)
    assert done.exit_code == 0, done
    return done.stdout.decode().strip()


def memory_gb(connection: Connection) -> float:
    """Return the memory that a job sees."""
    return int(says(connection, "free -k | awk '/^Mem:/ { print $2 }'")) / (1 << 20)


def qemu_of(provider_folder: Path, vm_id: str) -> Path:
    """Return the folder of /proc of the QEMU of a machine."""
    monitor = VmFolder(provider_folder / "vms" / vm_id).monitor()
    children = Path(f"/proc/{monitor}/task/{monitor}/children").read_text(encoding="ascii").split()
    (qemu,) = [Path("/proc", child) for child in children if "qemu" in Path("/proc", child, "comm").read_text()]
    return qemu


@pytest.mark.timeout(1800)
def test_a_machine_from_its_boot_over_a_fork_to_its_panic(
    opened: Callable[[], QemuProvider], tmp_path: Path, idmap: IdMap
):
    """A machine has its shape, outlives its provider, is forked from a snapshot, and its panic shows."""
    provider = opened()
    provider.create(VmSpec("parent", IMAGE, shape=Shape(cpu=1, memory_gb=1, disk_gb=3), network=False))
    provider.close()
    provider = opened()
    assert (list(provider.list()), provider.alive("parent"), provider.parked("parent")) == (["parent"], True, False)
    with Connection(provider.connect("parent"), SystemClock()) as connection:
        assert says(connection, "nproc") == "1"
        assert 0.8 < memory_gb(connection) < 1
        assert 2.7 * 2**30 < int(says(connection, "df -B1 --output=size / | tail -1")) < 3 * 2**30
        assert abs(int(says(connection, "date +%s")) - time.time()) < 60
        assert says(connection, "ls /sys/class/net") == "lo"
        says(connection, "head -c 3000000 /dev/urandom > /workspace/big; sha256sum /workspace/big > /workspace/sum")
    assert qemu_of(tmp_path / "qemu", "parent").stat().st_uid == idmap.root_uid + 65_534
    provider.snapshot("parent", "taken")
    assert not provider.alive("parent")
    provider.destroy("parent")
    assert 3_000_000 < provider.snapshot_bytes("taken") < 16 << 20

    provider.create(VmSpec("child", IMAGE, "taken", Shape(cpu=2, memory_gb=3, disk_gb=4), network=False))
    with Connection(provider.connect("child"), SystemClock()) as connection:
        assert says(connection, "sha256sum --check --quiet /workspace/sum; echo same") == "same"
        assert says(connection, "nproc") == "2"
        assert (
            2.8 * 2**20 < int(says(connection, "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo")) < 3 * 2**20
        )
        assert int(says(connection, "df -B1 --output=size / | tail -1")) > 3 * 2**30
        start(connection, CommandSpec("mount -o remount,rw /proc/sys; echo c > /proc/sysrq-trigger", env={}))
        until(lambda: not provider.alive("child"), "the machine's end")
    assert "Kernel panic" in (tmp_path / "qemu" / "vms" / "child" / "console").read_text(errors="replace")
    provider.destroy("child")
    provider.remove_snapshot("taken")
    assert (list(provider.list()), list(provider.snapshots())) == ([], [])
