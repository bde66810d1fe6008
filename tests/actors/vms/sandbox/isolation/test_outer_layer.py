"""Attacks of a job on the service's own part of its VM: sshd, init, the supervisor, the entrance.

The job's processes are root, with sys_admin and sys_ptrace in the VM's user namespace, to which both parts belong.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.vms.sandbox import SandboxSettings
from tests.actors.vms.sandbox.conftest import Boot, Guest, Host
from tests.actors.vms.sandbox.isolation.ways_back import WAYS

_MOUNT = re.compile(r"leads to mount (\d+) by")
MOUNTS = "cut -d ' ' -f 1 /proc/self/mountinfo"


def out_of_reach(vm: Guest) -> set[str]:
    """Return the ids of all mounts of the host, of the VM's monitor, and of its outer layer."""
    ids = set(vm.outside(MOUNTS).split())
    for process in {Path("/proc/self"), *(Path(f"/proc/{each.pid}") for each in vm.folder.processes() if each.alive)}:
        ids |= {line.split()[0] for line in (process / "mountinfo").read_text().splitlines()}
    return ids


def found(vm: Guest, said: str) -> list[str]:
    """Return what an attack said, without mounts that went meanwhile.

    A new mount, such as one that the attack makes, takes the id of one that went.
    """
    left = out_of_reach(vm)
    mounts = ((line, _MOUNT.search(line)) for line in said.splitlines())
    return [line for line, mount in mounts if mount is None or mount[1] in left]


@pytest.fixture(params=["a container's capabilities", "nested user namespaces"])
def vm(request: pytest.FixtureRequest, host: Host, boot: Boot) -> Guest:
    """A VM whose network is that of its outer layer, so that it shares as much with it as a job can."""
    nested = request.param == "nested user namespaces"
    return boot(network=True, provider=host.provider(SandboxSettings(user_namespaces=nested)))


def test_no_way_leads_from_a_command_to_the_outer_layer(vm: Guest) -> None:
    vm.run("cat >/run/ways.py", stdin=WAYS.encode())
    said = vm.command(f"python3 /run/ways.py {','.join(out_of_reach(vm))}", seconds=100)
    assert found(vm, said) == ["tried all"]
    assert vm.outside("cat /run/ci-daemon/ssh/authorized_keys; echo well").endswith("well")


def test_no_way_leads_from_an_entered_shell_to_the_outer_layer(vm: Guest) -> None:
    """As debugging and rendering have it: such a shell also sees the PID 1 of the job, and its command."""
    done = vm.run(f"python3 - {','.join(out_of_reach(vm))}", stdin=WAYS.encode(), timeout=100)
    assert (found(vm, done.stdout.decode()), done.exit_code) == (["tried all"], 0)
    assert vm.outside("cat /run/ci-daemon/ssh/authorized_keys; echo well").endswith("well")
