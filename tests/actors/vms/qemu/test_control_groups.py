"""Control groups of version 2 as systemd delegates them to the unit of VMs, on the kernel of a guest.

The host of the tests may have the controllers in version 1, and then a kernel of its own alone has them here.
"""

from __future__ import annotations

import io
import json
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.vms import Connection, QemuProvider
from storage import SystemClock
from tests.actors.vms.qemu.machines import SECONDS

CHECKOUT = Path(__file__).parents[4]
MEMORY_MB, PROCESSES = 48, 16
UNIT = "ci.slice/ci-vms.slice/ci-daemon-vms.service"

PROGRAM = f"""
import json, os, sys, time
from pathlib import Path

sys.path.insert(0, "/tmp/source")
from actors.vms.host.control_groups import GroupLimits, find_hierarchies, remove_groups

USER = 1000
top = Path("/sys/fs/cgroup")
unit = top / "{UNIT}"
starter = unit / "starter"
starter.mkdir(parents=True)
for above in reversed([folder for folder in unit.parents if folder.is_relative_to(top)]):
    (above / "cgroup.subtree_control").write_text("+cpu +memory +pids")
for delegated in (unit, unit / "cgroup.procs", unit / "cgroup.subtree_control", starter, starter / "cgroup.procs"):
    os.chown(delegated, USER, USER)
(starter / "cgroup.procs").write_text("0")
os.setgroups([])
os.setresgid(USER, USER, USER)
os.setresuid(USER, USER, USER)

(hierarchy,) = find_hierarchies(environ={{"CI_DAEMON_STARTER": "/nowhere"}})
hierarchy.make("vm", GroupLimits(cpu=1, memory={MEMORY_MB} << 20, pids={PROCESSES}))


def joined(function):
    child = os.fork()
    if child == 0:
        Path(hierarchy.join_file("vm")).write_text("0")
        os._exit(function() or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork_all():
    for number in range(4 * {PROCESSES}):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except BlockingIOError:
            return number
    return 255


def burn():
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass


def text(name):
    return (hierarchy.folder("vm") / name).read_text()


found = {{"parent": str(hierarchy.parent.relative_to(top)), "controllers": hierarchy.controllers}}
found["memory"] = joined(lambda: len(bytearray({MEMORY_MB} << 21)))
joined(burn)
found["periods"] = int(text("cpu.stat").partition("nr_periods ")[2].split()[0])
found["forked"] = joined(fork_all)
(hierarchy.folder("vm") / "cgroup.kill").write_text("1")
remove_groups([hierarchy.folder("vm")], 60)
found["left"] = hierarchy.folder("vm").exists()
print(json.dumps(found))
"""


@pytest.mark.timeout(1800)
def test_groups_below_the_unit_of_vms_limit_what_is_in_them(opened: Callable[[], QemuProvider]):
    """The service's user may make and join them, its processes get no more, and they go."""
    provider = opened()
    provider.weigh("vm", 100)
    provider.park("vm")
    with Connection(provider.connect("vm"), SystemClock(), timeout=SECONDS) as connection:
        unpack = "mount -t cgroup2 none /sys/fs/cgroup && mkdir /tmp/source && tar -x -C /tmp/source"
        unpacked = connection.run(unpack, stdin=sources(), timeout=SECONDS)
        assert unpacked.exit_code == 0, unpacked
        done = connection.run("python3 -I -S -", stdin=PROGRAM.encode(), timeout=SECONDS)
    assert done.exit_code == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found.pop("periods") > 0
    assert found == {
        "parent": UNIT,
        "controllers": ["cpu", "memory", "pids"],
        "memory": -signal.SIGKILL,
        "forked": PROCESSES - 1,
        "left": False,
    }


def sources() -> bytes:
    """Return an archive of the service's code, as far as control groups need it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as packed:
        for package in ("actors", "storage"):
            for path in (CHECKOUT / package).rglob("*.py"):
                packed.add(path, path.relative_to(CHECKOUT))
    return archive.getvalue()
