"""Attacks of a job on the service's own part of its VM: sshd, init, the supervisor, the entrance.

The job's processes are root, with sys_admin and sys_ptrace in the VM's user namespace, to which both parts belong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.vms.sandbox import SandboxSettings
from tests.actors.vms.sandbox.conftest import Boot, Guest, Host
from tests.actors.vms.sandbox.isolation.ways_back import WAYS

MOUNTS = "cut -d ' ' -f 1 /proc/self/mountinfo"


def out_of_reach(host: Host, vm: Guest) -> str:
    """Return the ids of all mounts of the host, of the VM's monitor, and of its outer layer."""
    ids = set(vm.outside(MOUNTS).split())
    for process in {Path("/proc/self"), *(Path(f"/proc/{each.pid}") for each in vm.folder.processes() if each.alive)}:
        ids |= {line.split()[0] for line in (process / "mountinfo").read_text().splitlines()}
    return ",".join(ids)


@pytest.fixture(params=["a container's capabilities", "nested user namespaces"])
def vm(request: pytest.FixtureRequest, host: Host, boot: Boot) -> Guest:
    """A VM whose network is that of its outer layer, so that it shares as much with it as a job can."""
    nested = request.param == "nested user namespaces"
    return boot(network=True, provider=host.provider(SandboxSettings(user_namespaces=nested)))


def test_no_way_leads_from_a_command_to_the_outer_layer(host: Host, vm: Guest) -> None:
    vm.run("cat >/run/ways.py", stdin=WAYS.encode())
    assert vm.command(f"python3 /run/ways.py {out_of_reach(host, vm)}", seconds=100) == "tried all"
    assert vm.outside("cat /run/ci-daemon/ssh/authorized_keys; echo well").endswith("well")


def test_no_way_leads_from_an_entered_shell_to_the_outer_layer(host: Host, vm: Guest) -> None:
    """As debugging and rendering have it: such a shell also sees the PID 1 of the job, and its command."""
    done = vm.run(f"python3 - {out_of_reach(host, vm)}", stdin=WAYS.encode(), timeout=100)
    assert (done.stdout.decode(), done.exit_code) == ("tried all\n", 0)
    assert vm.outside("cat /run/ci-daemon/ssh/authorized_keys; echo well").endswith("well")
