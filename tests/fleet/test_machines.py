"""Members that make no virtual machines, when the configuration asks for some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.vms import ImageStore, SandboxSettings, VmSpec
from actors.vms.host import IdMap
from actors.vms.incus import EngineError, IncusProvider
from ci_daemon.doctor.providers import members
from storage import SystemClock
from tests.fleet.fleet import Fleet
from tests.fleet.test_doctor import prepared
from tests.machines import unpacked_member_kernel
from tests.vms.contract.hosts import IMAGE


def test_a_member_without_kvm_is_named_and_its_vm_refused(lone: Fleet, tmp_path: Path, image_store: ImageStore):
    """Nothing is left of the VM, and nothing was sent to the engine for it."""
    assert "qemu" not in lone.members[0].run("incus info | grep driver:"), "this host has KVM for members"
    with lone.switch.entered():
        config = prepared(tmp_path, lone)
        kernel = unpacked_member_kernel()
        machines = replace(config.incus, instances="virtual-machine")
        config = replace(config, incus=machines, qemu=replace(config.qemu, system=kernel))
        found = {check.name: check for check in members(tmp_path, config)}
        assert [name for name, check in found.items() if not check.ok] == ["member m1"], found
        assert found["member m1"].detail.startswith("it makes no virtual machines: give it KVM")
        folder, shared = tmp_path / "incus", SandboxSettings()
        provider = IncusProvider(folder, image_store, IdMap.of_caller(), SystemClock(), machines, shared, system=kernel)
        with pytest.raises(EngineError, match="incus with the driver lxc, makes no virtual machines"):
            provider.create(VmSpec("vm", IMAGE))
        assert list(provider.list()) == []
        provider.close()
    assert lone.members[0].run("incus image list --project ci --format csv") == ""
