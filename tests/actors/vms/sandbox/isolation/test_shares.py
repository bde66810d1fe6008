"""The shares of a VM in what the kernel counts by user."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.vms import SandboxSettings
from actors.vms.host import VmLimits
from actors.vms.launcher.shares import take_terminals
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


def test_a_vm_has_an_equal_share_of_terminals_or_enough() -> None:
    of_host, most = (int(Path(f"/proc/sys/kernel/pty/{name}").read_text()) for name in ("reserve", "max"))
    assert take_terminals(1) == (most - of_host) // 2
    assert take_terminals(1 << 20) == 32
