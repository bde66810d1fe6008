"""Descriptions: what a provider's VMs cannot do on this host it says, and what it says is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.vms import Provider, VmSpec
from storage import Shape
from tests.vms.contract.bomb import bomb
from tests.vms.contract.conftest import Boot, park
from tests.vms.contract.hogs import MEMORY
from tests.vms.contract.hosts import IMAGE

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

BUSY = """\
import os, time
until = time.monotonic() + 0.8
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() < until:
            pass
        os._exit(0)
for _ in range(3):
    os.wait()
used = os.times()
print((used.children_user + used.children_system) / (time.monotonic() - until + 0.8))
"""


def test_a_provider_parks_if_it_says_so(provider: Provider):
    park(provider, "vm")
    assert provider.parked("vm") is provider.description.parks
    provider.attach(VmSpec("vm", IMAGE, network=False))
    assert provider.alive("vm")


@pytest.mark.real
def test_vms_have_kernels_of_their_own_if_it_says_so(boot: Boot, provider: Provider):
    kernels = {BOOT_ID.read_text().strip(), *(boot().says(f"cat {BOOT_ID}") for _ in range(2))}
    assert len(kernels) == (3 if provider.description.own_kernel else 1)


@pytest.mark.real
@pytest.mark.essential
def test_the_limit_of_each_part_of_a_shape_is_described(provider: Provider):
    assert [each.resource for each in provider.description.limits] == ["cpu", "memory", "pids", "disk"]
    assert all(each.how for each in provider.description.limits)


@pytest.mark.real
@pytest.mark.limited("cpu")
def test_a_vm_has_no_more_cpus_than_its_shape(boot: Boot):
    assert float(boot(shape=Shape(cpu=1, memory_gb=1)).python(BUSY)) < 1.3


@pytest.mark.real
@pytest.mark.limited("memory")
def test_a_memory_hog_is_ended_and_the_vm_stays(boot: Boot):
    vm = boot(shape=Shape(memory_gb=1))
    done = vm.complete("python3 -", MEMORY.encode())
    assert done.exit_code != 0
    assert b"took" not in done.stdout
    assert vm.says("echo well") == "well"


@pytest.mark.real
@pytest.mark.limited("disk")
def test_no_file_grows_past_the_disk(boot: Boot):
    vm = boot(shape=Shape(memory_gb=1, disk_gb=1))
    assert vm.run("fallocate --length 2G /workspace/large")[0] != 0
    assert vm.says("rm -f /workspace/large; echo well > /workspace/file; cat /workspace/file") == "well"


@pytest.mark.real
@pytest.mark.limited("pids")
def test_a_fork_bomb_is_bounded_and_leaves_others_alone(boot: Boot):
    bombed, other = boot(), boot()
    assert int(bombed.python(bomb(5000))) < 5000
    assert other.says("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.1 &) ; done; echo well") == "well"
    assert bombed.says("echo well") == "well"
