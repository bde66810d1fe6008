"""The shares of a VM in what the kernel counts by user."""

from __future__ import annotations

import pytest

from actors.vms.sandbox import SandboxSettings, VmLimits
from tests.actors.vms.sandbox.conftest import Boot, Host
from tests.vms.contract.bomb import bombs


def test_no_vm_can_take_the_id_of_the_network_s_program(boot: Boot) -> None:
    taking_it = "import os\ntry: os.setuid(65535)\nexcept OSError as error: print(error.strerror)"
    assert boot().python(taking_it) == "Invalid argument"


@pytest.mark.parametrize("groups", [True, False])
def test_a_fork_bomb_of_several_users_is_one_vm_s(host: Host, boot: Boot, groups: bool) -> None:
    provider = host.provider(SandboxSettings(processes=100))
    if not groups:
        provider.limits = VmLimits(100, ())
    vm = boot(provider=provider)
    assert sum(map(int, vm.python(bombs(500, users=4)).split())) < 100
    assert vm.says("echo well") == "well"
