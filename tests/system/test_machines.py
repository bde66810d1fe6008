"""VMs of QEMU under systemd: mended by the doctor, confined, limited, and alive over a restart.

Each test continues with the machine of the one before. The kernel is that of this host, so what these machines boot
under their QEMU is emulated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from actors.vms import QemuSettings
from tests.actors.vms.qemu.machines import CONFINED
from tests.system.machine import Machine
from tests.system.service import Service, let_make_groups
from tests.waiting import until

CONFIGURATION = """
[pool]
provider = "qemu"
parked = 0
[sandbox]
create_seconds = 900
"""
SECONDS = 900.0
TICKS = 60
TICKING = f"uname -r; for tick in $(seq {TICKS}); do echo tick $tick; sleep 0.5; done"
NEEDED = {"qemu", "qemu-img", "kernel", "busybox"}
UNIT_GROUP = "/ci.slice/ci-vms.slice/ci-daemon-vms.service"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Machine() as machine:
        let_make_groups(machine)
        yield Service.installed_on(machine)


def checks(service: Service) -> dict[str, Any]:
    """Return the doctor's checks by their names."""
    found = json.loads(service.machine.run("ci-daemon doctor --json", check=False).stdout)
    return {check["name"]: check for check in found}


def qemu(service: Service) -> int:
    return int(service.machine.run("pgrep qemu-system").stdout)


def test_the_doctor_mends_all_that_machines_lack(service: Service):
    file = "/etc/ci-daemon/ci-daemon.toml"
    service.machine.run(f"cat >{file}", stdin=CONFIGURATION)
    assert {name for name in NEEDED if not checks(service)[name]["ok"]} == NEEDED
    service.machine.run("ci-daemon doctor --fix", check=False, seconds=900)
    mended = checks(service)
    assert {name for name in NEEDED if mended[name]["ok"]} == NEEDED, mended
    service.machine.run("systemctl restart ci-daemon")
    until(service.answers, "the service", 60)


def test_a_machine_is_confined_and_outlives_a_restart(service: Service):
    """Its group is below the unit for VMs; its limits are those of its shape and QEMU's share."""
    build = service.build(TICKING)
    build.says("tick 1", SECONDS)
    (lease,) = json.loads(service.machine.run("ci-daemon lease list --json").stdout)
    pid = qemu(service)
    assert lease["provider"] == "qemu"
    groups = groups_of(service, pid)
    assert groups[""].startswith(f"{UNIT_GROUP}/ci-daemon-")
    assert all(group.endswith(f"-{lease['id']}") for group in groups.values()), groups
    assert limits(service, groups) == {
        "memory.limit_in_bytes": (lease["memory_gb"] << 30) + (QemuSettings().overhead_mb << 20),
        "pids.max": 512,
        "cpu.cfs_quota_us": lease["cpu"] * 100_000,
    }
    members = service.machine.run(f"cat /sys/fs/cgroup{groups['']}/cgroup.procs").stdout.split()
    assert str(pid) in members
    privileged = {"0", service.machine.run("id -u ci-daemon").stdout.strip()}
    assert all(ids(service, int(member)).isdisjoint(privileged) for member in members)
    status = fields(service, pid)
    assert {key: status[key] for key in CONFINED} == CONFINED

    before = service.property("MainPID")
    service.machine.run("systemctl restart ci-daemon")
    assert service.property("MainPID") != before
    assert qemu(service) == pid
    build.passes(SECONDS)
    kernel, *ticks = build.log()
    assert kernel != service.machine.run("uname -r").stdout.strip()
    assert ticks == [f"tick {n + 1}" for n in range(TICKS)]
    until(lambda: not service.machine.run("pgrep qemu-system", check=False).stdout, "the end of QEMU", 60)
    until(lambda: not left_of(service, groups), "the end of its groups", 60)


def test_stopping_the_unit_of_vms_ends_machines(service: Service):
    build = service.build(TICKING)
    build.says("tick 1", SECONDS)
    groups = groups_of(service, qemu(service))
    service.machine.run("systemctl stop ci-daemon ci-daemon-vms")
    assert service.machine.run("pgrep qemu-system", check=False).stdout == ""
    service.machine.run("systemctl start ci-daemon")
    until(service.answers, "the service", 60)
    build.passes(SECONDS)
    until(lambda: not left_of(service, groups), "the end of the lost machine's groups", 120)


def groups_of(service: Service, pid: int) -> dict[str, str]:
    """Return a process's control groups by their controllers; version 2, which has none here, is under ''."""
    lines = service.machine.run(f"cat /proc/{pid}/cgroup").stdout.splitlines()
    found = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    return {names: found[names] for names in ("", "cpu", "memory", "pids")}


def limits(service: Service, groups: dict[str, str]) -> dict[str, int]:
    files = {"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"}
    return {
        file: int(service.machine.run(f"cat /cgroup/{name}{groups[name]}/{file}").stdout)
        for name, file in files.items()
    }


def left_of(service: Service, groups: dict[str, str]) -> str:
    """Name the groups that are left."""
    paths = [f"/sys/fs/cgroup{groups['']}", *(f"/cgroup/{name}{path}" for name, path in groups.items() if name)]
    return service.machine.run(f"ls -d {' '.join(paths)} 2>/dev/null", check=False).stdout


def fields(service: Service, pid: int) -> dict[str, str]:
    """Return the lines of a process's status by their names."""
    lines = service.machine.run(f"cat /proc/{pid}/status").stdout.splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def ids(service: Service, pid: int) -> set[str]:
    return set(fields(service, pid)["Uid"].split())
