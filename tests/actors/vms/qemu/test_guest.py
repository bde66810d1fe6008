"""The guest of a machine: what serves the job ranks above it, and its clock and identity are its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from actors.vms import CommandSpec, Connection, QemuProvider, VmSpec, start, terminate
from storage import Shape, SystemClock
from tests.actors.vms.commands import ended
from tests.actors.vms.qemu.machines import IMAGE, PROCESSES, SECONDS, says
from tests.vms.contract.bomb import bomb
from tests.vms.contract.hogs import HOGS

MOST_TO_WRITE_FOR_A_SNAPSHOT = 64 << 20
CLOCK = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource"


@pytest.mark.timeout(1800)
def test_a_guest_has_the_hosts_time_and_ranks_above_its_job(opened: Callable[[], QemuProvider]):
    """Its clock stood while it was parked; then its job takes all of the CPU and all processes."""
    provider = opened()
    provider.weigh("vm", 100)
    provider.park("vm")
    with Connection(provider.connect("vm"), SystemClock(), timeout=SECONDS) as connection:
        assert connection.run("date -s 2001-01-01 && test -w /proc/sysrq-trigger", timeout=SECONDS).exit_code == 0
        provider.attach(VmSpec("vm", IMAGE, None, Shape(cpu=1, memory_gb=1, disk_gb=1), network=False))
        assert abs(float(says(connection, "date +%s.%N")) - time.time()) < 60
        assert says(connection, CLOCK) in {"hpet", "kvm-clock"}
        assert says(connection, "cat /etc/machine-id 2>/dev/null || true") == ""
        assert 0 < int(says(connection, "cat /proc/sys/vm/dirty_bytes")) <= MOST_TO_WRITE_FOR_A_SNAPSHOT

        says(connection, f"cat > /workspace/hog.py <<'END'\n{HOGS['CPU']}\nEND")
        hog = start(connection, CommandSpec("exec python3 hog.py", {"PATH": "/usr/bin"}))
        assert bytes(next(iter(hog))).startswith(b"up\n")
        assert connection.run("echo well", timeout=SECONDS).stdout == b"well\n"
        terminate(connection, grace=0.5)
        assert ended(connection).exit_code == 137
        says(connection, f"cat > /workspace/bomb.py <<'END'\n{bomb(4 * PROCESSES)}\nEND")
        assert int(says(connection, "python3 /workspace/bomb.py")) < PROCESSES
