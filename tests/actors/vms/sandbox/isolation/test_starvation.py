"""A job takes all that it can, and the service's own part of its VM goes on serving."""

from __future__ import annotations

import pytest

from actors.vms import (
    CommandSpec,
    CommandState,
    Connection,
    SandboxProvider,
    SandboxSettings,
    VmSpec,
    follow,
    inspect,
    start,
    terminate,
)
from actors.vms.host import VmLimits
from actors.vms.launcher.shares import of_job
from storage import Shape, SystemClock
from tests.actors.vms.commands import ended, left_running, run_in_job
from tests.actors.vms.sandbox.conftest import IMAGE, Boot, Guest, Host
from tests.vms.contract.bomb import bombs
from tests.vms.contract.hogs import HOGS
from tests.waiting import until

GRACE = 0.5


@pytest.fixture(params=["resource limits", "nested user namespaces"])
def provider(request: pytest.FixtureRequest, host: Host) -> SandboxProvider:
    """A provider as on a host without control groups, and one with more of the kernel open."""
    nested = request.param == "nested user namespaces"
    provider = host.provider(SandboxSettings(processes=300, user_namespaces=nested))
    if request.param == "resource limits":
        provider.limits = VmLimits(provider.limits.processes, ())
    return provider


@pytest.mark.parametrize("hog", HOGS)
def test_a_vm_answers_while_its_job_takes_all_it_can(
    host: Host, boot: Boot, provider: SandboxProvider, hog: str
) -> None:
    if hog == "memory" and not provider.limits.hierarchies:
        hog = "processes"  # without groups, the sum of the memory has no bound
    parked = host.name()
    provider.park(parked)
    vm = boot(provider=provider, shape=Shape(memory_gb=1))
    vm.run("cat >/root/hog.py", stdin=HOGS[hog].encode())
    following = start(
        vm.connection, CommandSpec("exec python3 /root/hog.py", {"PATH": "/usr/bin"}, output_limit=1 << 26)
    )
    assert bytes(next(iter(following))).startswith(b"up\n")
    assert vm.outside("echo well") == "well"
    with Connection(provider.connect(vm.id), SystemClock()) as another:
        assert inspect(another) is CommandState.RUNNING
        assert bytes(next(iter(follow(another)))).startswith(b"up\n")
        provider.attach(VmSpec(parked, IMAGE, shape=Shape(memory_gb=1), network=False))
        with Connection(provider.connect(parked), SystemClock()) as beside:
            assert b"".join(start(beside, CommandSpec("echo beside"))) == b"beside\n"
        assert inspect(another) is CommandState.RUNNING
        terminate(another, grace=GRACE)
        assert ended(another).exit_code == 137
        until(lambda: left_running(another) == [], "the end of all processes")
        assert run_in_job(another, "echo well").stdout == b"well\n"
    assert provider.alive(vm.id)
    assert provider.alive(parked)


def test_a_bomb_of_an_entered_shell_leaves_room_to_answer(boot: Boot, provider: SandboxProvider) -> None:
    vm: Guest = boot(provider=provider)
    vm.run("cat >/root/hog.py", stdin=HOGS["processes"].encode())
    # Once it has begun, the shell could not start another program.
    vm.says("mkfifo /run/up; setsid python3 /root/hog.py >/run/up 2>&1 & read line </run/up")
    with Connection(provider.connect(vm.id), SystemClock()) as another:
        assert inspect(another) is CommandState.NOT_STARTED
        assert another.run("echo well", timeout=20).stdout == b"well\n"
    assert provider.alive(vm.id)


def test_processes_of_many_users_leave_room_to_answer(boot: Boot, provider: SandboxProvider) -> None:
    """The bound of a job counts those of all its users together."""
    vm: Guest = boot(provider=provider)
    vm.run("cat >/root/bombs.py", stdin=bombs(most=500, users=4).encode())
    taken = b""
    for chunk in start(vm.connection, CommandSpec("exec python3 /root/bombs.py", {"PATH": "/usr/bin"})):
        taken += chunk
        if taken.count(b"\n") == 4:
            break
    assert sum(map(int, taken.split())) < of_job(300)
    with Connection(provider.connect(vm.id), SystemClock()) as another:
        assert another.run("(echo well) | cat", timeout=20).stdout == b"well\n"
    assert provider.alive(vm.id)
