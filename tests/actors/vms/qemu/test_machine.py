"""A machine from its boot to its end; `make test-qemu` runs the whole contract on machines."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.vms import CommandSpec, Connection, QemuProvider, VmSpec, start
from actors.vms.host import IdMap
from storage import Shape, SystemClock
from tests.actors.vms.qemu.machines import CONFINED, IMAGE, SECONDS, confinement, qemu_of, says
from tests.waiting import until

LARGEST_FILE = (3 << 30) * 9 // 8
"""The size of the disk under test, and an eighth for what describes it in its file."""


def memory_gb(connection: Connection) -> float:
    """Return the memory that a job sees."""
    return int(says(connection, "free -k | awk '/^Mem:/ { print $2 }'")) / (1 << 20)


def overlay_of(folder: Path, place: str) -> int:
    """Return the inode of the file with a disk's writes."""
    return (folder / "qemu" / place / "overlay").stat().st_ino


@pytest.mark.timeout(1800)
def test_a_machine_from_its_boot_over_a_fork_to_its_panic(
    opened: Callable[[], QemuProvider], tmp_path: Path, idmap: IdMap
):
    """A machine has its shape, outlives its provider and is forked; layers are merged; a panic shows."""
    provider = opened()
    provider.create(VmSpec("parent", IMAGE, shape=Shape(cpu=1, memory_gb=1, disk_gb=3), network=False))
    provider.close()
    provider = opened()
    assert (list(provider.list()), provider.alive("parent"), provider.parked("parent")) == (["parent"], True, False)
    with Connection(provider.connect("parent"), SystemClock(), timeout=SECONDS) as connection:
        assert says(connection, "nproc") == "1"
        assert 0.8 < memory_gb(connection) < 1
        assert 2.7 * 2**30 < int(says(connection, "df -B1 --output=size / | tail -1")) < 3 * 2**30
        assert abs(int(says(connection, "date +%s")) - time.time()) < 60
        assert says(connection, "ls /sys/class/net") == "lo"
        says(connection, "head -c 3000000 /dev/urandom > /workspace/big; sha256sum /workspace/big > /workspace/sum")
    qemu = qemu_of(tmp_path / "qemu", "parent")
    assert (qemu.stat().st_uid, confinement(qemu)) == (idmap.root_uid + 65_534, CONFINED)
    most = {kind: resource.prlimit(int(qemu.name), kind) for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)}
    assert most == {resource.RLIMIT_FSIZE: (LARGEST_FILE, LARGEST_FILE), resource.RLIMIT_NOFILE: (4096, 4096)}
    written = overlay_of(tmp_path, "vms/parent/disk")
    provider.snapshot("parent", "taken")
    assert overlay_of(tmp_path, "snapshots/taken") == written, "the disk was copied, which takes longer if it is larger"
    assert not provider.alive("parent")
    provider.destroy("parent")
    assert 3_000_000 < provider.snapshot_bytes("taken") < 16 << 20

    provider.create(VmSpec("child", IMAGE, "taken", Shape(cpu=2, memory_gb=3, disk_gb=4), network=False))
    with Connection(provider.connect("child"), SystemClock(), timeout=SECONDS) as connection:
        assert says(connection, "sha256sum --check --quiet /workspace/sum; echo same") == "same"
        assert says(connection, "nproc") == "2"
        assert (
            2.8 * 2**20 < int(says(connection, "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo")) < 3 * 2**20
        )
        assert int(says(connection, "df -B1 --output=size / | tail -1")) > 3 * 2**30
        says(connection, "echo child > /workspace/child")
    provider.snapshot("child", "flat")
    provider.destroy("child")
    provider.remove_snapshot("taken")

    provider.create(VmSpec("grandchild", IMAGE, "flat", Shape(cpu=1, memory_gb=1, disk_gb=4), network=False))
    with Connection(provider.connect("grandchild"), SystemClock(), timeout=SECONDS) as connection:
        assert says(connection, "sha256sum --check --quiet /workspace/sum; cat /workspace/child") == "child"
        start(connection, CommandSpec("mount -o remount,rw /proc/sys; echo c > /proc/sysrq-trigger", env={}))
        until(lambda: not provider.alive("grandchild"), "the machine's end")
    assert "Kernel panic" in (tmp_path / "qemu" / "vms" / "grandchild" / "console").read_text(errors="replace")
    provider.destroy("grandchild")
    provider.remove_snapshot("flat")
    assert (list(provider.list()), list(provider.snapshots())) == ([], [])
