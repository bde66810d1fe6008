"""Faults of a machine: whatever fails, the service can tell, and frees it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.vms import Connection, QemuProvider, VmError, VmLost, VmSpec, in_job
from actors.vms.host import IdMap
from storage import Shape, SystemClock
from tests.actors.vms.qemu.machines import IMAGE, SECONDS, qemu_of, says
from tests.vms.contract.taking import IN_FLIGHT
from tests.waiting import until

MORE_THAN_WAIT_IN_THE_KERNEL = 4
"""Connections that QEMU has not taken yet, of which the kernel completes two."""

FILL_THE_DISK = """\
cd /workspace
fallocate --length "$(df --block-size=1 --output=avail . | tail -1)" full
head -c 1M /dev/urandom > more 2>&1 && sync more && echo written"""

TAKE_ALL_MEMORY = "python3 -c 'import mmap; mmap.mmap(-1, 2 << 30, 0xC022)'"
"""Private pages that are there at once, and reserved nowhere (MAP_POPULATE, MAP_NORESERVE).

Each instruction is emulated, and the kernel fills memory with fewer than a program that writes to it.
"""


@pytest.mark.timeout(1800)
def test_a_machine_bears_a_full_disk_and_memory_and_a_pause(opened: Callable[[], QemuProvider], tmp_path: Path):
    """Stopped, it lets connections wait; killed, it is lost, and freed."""
    provider = opened()
    provider.create(VmSpec("vm", IMAGE, shape=Shape(cpu=1, memory_gb=1, disk_gb=1), network=False))
    with Connection(provider.connect("vm"), SystemClock(), timeout=SECONDS) as connection:
        full = connection.run(in_job(FILL_THE_DISK), timeout=SECONDS)
        assert (full.exit_code, full.stdout) != (0, b"written\n")
        assert says(connection, "rm /workspace/*; echo well > /workspace/file; cat /workspace/file") == "well"
        assert connection.run(in_job(TAKE_ALL_MEMORY), timeout=SECONDS).exit_code == 128 + signal.SIGKILL
        assert says(connection, "cat /workspace/file") == "well"
        qemu = int(qemu_of(tmp_path / "qemu", "vm").name)
        os.kill(qemu, signal.SIGSTOP)
        with pytest.raises(VmError):
            Connection(provider.connect("vm"), SystemClock(), timeout=1.0)
        assert provider.alive("vm")
        waiting = [provider.connect("vm") for _ in range(MORE_THAN_WAIT_IN_THE_KERNEL)]
        os.kill(qemu, signal.SIGCONT)
        for endpoint in waiting:
            with Connection(endpoint, SystemClock(), timeout=SECONDS) as waited:
                assert says(waited, "cat /workspace/file") == "well"
        assert says(connection, "cat /workspace/file") == "well"
        os.kill(qemu, signal.SIGKILL)
        until(lambda: not provider.alive("vm"), "the machine's end")
    with pytest.raises(VmLost):
        provider.connect("vm")
    with pytest.raises(VmLost):
        provider.snapshot("vm", "taken")
    provider.destroy("vm")
    assert (list(provider.list()), list(provider.snapshots())) == ([], [])


@pytest.mark.timeout(1800)
def test_descriptors_in_flight_stop_no_connection(opened: Callable[[], QemuProvider], idmap: IdMap):
    """Those of all VMs' processes are counted together, and a sandbox may hold the most."""
    provider = opened()
    provider.weigh("vm", 100)
    provider.park("vm")
    command = idmap.command(["/usr/bin/python3", "-c", IN_FLIGHT])
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd="/") as greedy:
        try:
            assert greedy.stdout is not None
            assert int(greedy.stdout.readline()) > 1000
            with Connection(provider.connect("vm"), SystemClock(), timeout=SECONDS) as connection:
                assert connection.run("echo well", timeout=SECONDS).stdout == b"well\n"
        finally:
            greedy.kill()
