"""Starting a VM's launcher when the VM dies on the way."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.vms import VmError
from actors.vms.host.vm_folder import VmFolder
from actors.vms.sandbox.provider import park_vm
from storage import SystemClock


class DyingVm:
    """A VM that reports that it is ready, and ends before it accepts a connection."""

    def start(self, program: str, arguments: dict[str, Any], descriptors: list[int]) -> None:
        subprocess.run(["echo", "ready"], stdout=descriptors[0], pass_fds=descriptors[1:], check=True)


def test_a_vm_that_dies_before_it_accepts_is_noticed_at_once(tmp_path: Path) -> None:
    vm = VmFolder(tmp_path / "vm")
    vm.make()
    unlocked = os.open(os.devnull, os.O_RDONLY)
    clock = SystemClock()
    failures: list[str] = []

    def start() -> None:
        with pytest.raises(VmError) as failure:
            park_vm(vm, {}, unlocked, DyingVm(), clock, clock.monotonic() + 3600)
        failures.append(str(failure.value))

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(20)
    os.close(unlocked)
    assert "sshd" in failures[0]
