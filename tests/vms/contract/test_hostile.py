"""Hostile guests: whatever a job does in its VM, the service goes on driving that VM and all others."""

from __future__ import annotations

from contextlib import suppress

import pytest

from actors.vms import CommandSpec, CommandState, Provider, VmError, follow, inspect, start, terminate
from tests.actors.vms.commands import TIMEOUT, ended, run_in_job
from tests.vms.contract.conftest import Boot
from tests.vms.contract.hogs import HOGS
from tests.waiting import until

STRANGE_FILES = """\
import os
os.chdir("/workspace")
for name in ("new\\nline", "-rf", "*", "\\x01", "a" * 255):
    os.mkdir(name, 0)
for _ in range(3000):
    os.mkdir("d" * 255)
    os.chdir("d" * 255)
os.mkfifo("/workspace/fifo")
os.symlink("/proc/1/root/../../..", "/workspace/up")
os.chmod("/", 0o700)
"""

SHUT_DOWN = """\
python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x1234567)'; \
echo b > /proc/sysrq-trigger; echo c > /proc/sysrq-trigger; echo o > /proc/sysrq-trigger"""

WORKSPACES = ("touch /workspace", "ln -s /nowhere /workspace", "ln -s workspace /workspace")


FILLS_MEMORY = "descriptors"
"""The hog whose memory the kernel cannot take back by killing one process."""


@pytest.mark.real
@pytest.mark.parametrize(
    "hog", [pytest.param(each, marks=pytest.mark.reserved if each == FILLS_MEMORY else ()) for each in HOGS]
)
def test_a_vm_answers_while_its_job_takes_all_it_can(boot: Boot, provider: Provider, hog: str):
    vm, beside = boot(), boot()
    vm.run("cat >/root/hog.py", HOGS[hog].encode())
    with vm.connect() as connection:
        hogging = CommandSpec("exec python3 /root/hog.py", {"PATH": "/usr/bin"}, output_limit=1 << 26)
        assert bytes(next(iter(start(connection, hogging)))).startswith(b"up\n")
        assert connection.run("echo well", timeout=TIMEOUT).stdout == b"well\n"
    with vm.connect() as another:
        assert inspect(another) is CommandState.RUNNING
        assert bytes(next(iter(follow(another)))).startswith(b"up\n")
        assert beside.says("echo beside") == "beside"
        terminate(another, grace=0.5)
        assert ended(another).exit_code == 137
        assert run_in_job(another, "echo well").stdout == b"well\n"
    assert provider.alive(vm.id)


@pytest.mark.real
def test_a_vm_that_its_job_has_filled_ends_and_harms_no_other(boot: Boot, provider: Provider):
    vm, beside = boot(), boot()
    vm.run("cat >/root/hog.py", HOGS[FILLS_MEMORY].encode())
    with vm.connect() as connection:
        following = iter(start(connection, CommandSpec("exec python3 /root/hog.py", {"PATH": "/usr/bin"})))
        assert bytes(next(following)).startswith(b"up\n")
        assert beside.says("echo beside") == "beside"
        assert provider.alive(vm.id)
        provider.destroy(vm.id)
        with pytest.raises(VmError):
            list(following)
    assert list(provider.list()) == [beside.id]
    assert beside.says("echo well") == "well"


@pytest.mark.real
def test_a_job_that_removes_its_whole_disk_is_still_served(boot: Boot, provider: Provider):
    """Its command ends, its VM answers, and a fork of what is left has a workspace."""
    vm = boot()
    with vm.connect() as connection:
        start(connection, CommandSpec("echo up; rm -rf --no-preserve-root / 2>/dev/null; exit 5"))
        assert ended(connection).exit_code == 5
        assert connection.run("echo well", timeout=TIMEOUT).stdout == b"well\n"
    with vm.connect() as another:
        assert inspect(another) is CommandState.ENDED
    assert provider.alive(vm.id)
    provider.destroy(vm.id)


@pytest.mark.real
@pytest.mark.parametrize("left", WORKSPACES)
def test_a_fork_has_a_workspace_whatever_its_parent_left(boot: Boot, left: str):
    parent = boot()
    parent.says(f"rm -r /workspace; {left}")
    assert boot(parent.snapshot("taken")).says("stat -c %F /workspace") == "directory"


@pytest.mark.real
def test_a_disk_of_strange_files_is_measured_kept_and_forked(boot: Boot, provider: Provider):
    vm = boot()
    vm.python(STRANGE_FILES)
    vm.says("ln -sfn /workspace/elsewhere /srv; rm -rf /mnt && ln -s ../../../../../tmp /mnt")
    until(lambda: provider.disk(vm.id).bytes > 3000 * 1024, "the files on the disk")
    fork = boot(vm.snapshot("taken"))
    assert fork.says("ls /workspace | wc -l; readlink /mnt") == "9\n../../../../../tmp"


@pytest.mark.real
def test_a_job_that_shuts_its_vm_down_ends_no_other(boot: Boot, provider: Provider):
    """Nothing hangs: the command ends, or its VM is lost."""
    vm, beside = boot(), boot()
    with vm.connect() as connection:
        following = start(connection, CommandSpec(f"{SHUT_DOWN}; exit 4"))
        with suppress(VmError):
            list(following)
    if following.exited is None:
        until(lambda: not provider.alive(vm.id), "the VM's end")
    assert beside.says("echo well") == "well"
    provider.destroy(vm.id)
    assert list(provider.list()) == [beside.id]
