"""VMs that lost a process: listed and freed, without touching other VMs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from actors.vms import VmError
from actors.vms.host import VmLimits, run_mapped
from storage import Shape
from tests.actors.vms.sandbox.conftest import Boot, Guest, Host
from tests.processes import ended
from tests.waiting import until


def monitor(vm: Guest) -> int:
    (process,) = [found for found in vm.folder.processes() if found.alive]
    return process.pid


def children(pid: int) -> dict[str, int]:
    """Return a process's children, by the first word of their command line."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found[(path / "cmdline").read_bytes().split(b"\0")[0].decode()] = int(path.name)
        except OSError:
            continue
    return found


def freed(host: Host, vm: Guest) -> bool:
    return vm.id not in vm.provider.list() and host.groups() == [] and host.processes() == []


def test_a_vm_whose_init_was_killed_takes_its_network_with_it(host: Host, boot: Boot):
    vm = boot(network=True)
    parts = children(monitor(vm))
    assert len(parts) == 2, parts
    os.kill(parts.pop("init"), signal.SIGKILL)
    (helper,) = parts.values()
    until(lambda: not Path(f"/proc/{helper}").exists(), "the end of the program behind the VM's network")

    until(lambda: not vm.provider.alive(vm.id), "the end of the VM")
    assert list(vm.provider.list()) == [vm.id]
    vm.provider.destroy(vm.id)
    assert freed(host, vm)


def test_a_vm_ends_with_its_network_program(host: Host, boot: Boot):
    vm = boot(network=True)
    parts = children(monitor(vm))
    os.kill(next(pid for name, pid in parts.items() if name != "init"), signal.SIGKILL)
    until(lambda: not vm.provider.alive(vm.id), "the VM's end")
    vm.provider.destroy(vm.id)
    assert freed(host, vm)


def test_a_vm_without_a_record_is_freed_with_its_groups(host: Host, boot: Boot):
    vm = boot()
    (host.folder / "vms" / vm.id / "record").unlink()
    vm.provider.destroy(vm.id)
    assert freed(host, vm)


def test_a_vm_without_a_folder_is_found_by_disk_and_groups(host: Host, boot: Boot):
    vm, other = boot(), boot()
    process = monitor(vm)
    shutil.rmtree(host.folder / "vms" / vm.id)
    until(lambda: not Path(f"/proc/{process}").exists(), "the VM's end")
    assert vm.id in vm.provider.list()
    run_mapped(["rm", "-rf", f"disks/{vm.id}"], idmap=host.idmap, cwd=host.folder / "trees")
    assert (vm.id in vm.provider.list()) == bool(VmLimits.of_host(1).hierarchies)
    host.provider().destroy(vm.id)

    assert list(vm.provider.list()) == [other.id]
    assert other.says("echo well") == "well"


def test_control_groups_are_those_of_their_own_folder(host: Host, boot: Boot):
    vm = boot()
    other = Host(host.folder.with_name("other"), host.images, host.idmap, host.names)
    provider, orphan = other.provider(), host.name()
    provider.limits.make_groups(provider.group_name(orphan), provider.limits.of_job(Shape()))
    try:
        assert list(vm.provider.list()) == [vm.id]
        assert list(provider.list()) == ([orphan] if provider.limits.hierarchies else [])
    finally:
        provider.destroy(orphan)
    assert list(provider.list()) == []
    assert vm.says("echo well") == "well"
    run_mapped(["rm", "-rf", "other"], idmap=host.idmap.with_caller(), cwd=host.folder.parent)


def test_a_disk_still_mounted_in_a_namespace_is_freed(host: Host, boot: Boot):
    vm = boot()
    enter = ["nsenter", "--target", str(monitor(vm)), "--user", "--mount", "--", "/bin/sleep", "600"]
    with ended(subprocess.Popen(enter)) as visitor:
        until(lambda: str(host.folder) in Path(f"/proc/{visitor.pid}/mountinfo").read_text(), "the mount")
        vm.provider.destroy(vm.id)
        assert vm.id not in vm.provider.list()
        assert not (host.folder / "trees" / "disks" / vm.id).exists()


def test_a_vms_lock_is_held_while_it_is_made(host: Host):
    """So a VM that starts is not taken for one that ended."""
    host.provider()
    vm = host.vm_folder(host.name())
    vm.make()
    with vm.locked():
        assert [path.name for path in vm.folder.iterdir()] == ["lock"]
        with pytest.raises(VmError, match="cannot be killed"):
            vm.end(0.1)
    vm.end(0.1)


def test_a_repeated_snapshot_removes_a_partial_one(host: Host, boot: Boot):
    vm = boot()
    name = host.name()
    vm.provider.snapshot(vm.id, name)
    place = host.folder / "trees" / "snapshots" / name
    script = 'mkdir -p "$1/work/work" "$1/root" "$1/flat" && : > "$1/netns"'
    run_mapped(["sh", "-c", script, "sh", f"snapshots/{name}"], idmap=host.idmap, cwd=host.folder / "trees")
    vm.provider.snapshot(vm.id, name)

    assert {path.name for path in place.iterdir()} == {"flat", "chain"}
