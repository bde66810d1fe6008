"""A VM's shape is enforced, with or without control groups, on its processes and not on the VM itself."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

import pytest

from actors.vms import CommandSpec, SandboxProvider, SandboxSettings, VmError, VmSpec, start
from actors.vms.host import BROKER_VARIABLE, VmLimits
from actors.vms.host.control_groups import GroupLimits, Hierarchy, find_hierarchies, remove_groups
from storage import Shape
from tests.actors.vms.sandbox.conftest import IMAGE, Boot, Host
from tests.vms.contract.bomb import bomb
from tests.vms.contract.hogs import MEMORY
from tests.waiting import until


@pytest.fixture
def provider(host: Host) -> SandboxProvider:
    """A provider as on a host without control groups."""
    provider = host.provider(SandboxSettings(processes=100))
    provider.limits = VmLimits(100, ())
    return provider


def test_a_fork_bomb_is_bounded_and_the_vm_stays(boot: Boot, provider: SandboxProvider) -> None:
    vm = boot(provider=provider)
    children = int(vm.python(bomb(2000)))
    assert 50 < children < 100
    assert vm.provider.alive(vm.id)


def test_a_bomb_in_one_vm_leaves_another_alone(boot: Boot, provider: SandboxProvider) -> None:
    bombed, other = boot(provider=provider), boot(provider=provider)
    assert int(bombed.python(bomb(2000))) < 100
    assert other.says("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.1 &) ; done; echo well") == "well"


def test_a_memory_hog_is_ended_and_the_vm_stays(boot: Boot, provider: SandboxProvider) -> None:
    vm = boot(provider=provider, shape=Shape(memory_gb=1))
    done = vm.run("python3 -", stdin=MEMORY.encode())
    assert done.exit_code != 0
    assert b"took" not in done.stdout
    assert vm.says("echo well") == "well"


def test_a_full_temporary_file_system_does_not_end_the_vm(boot: Boot) -> None:
    vm = boot(shape=Shape(memory_gb=1))
    assert vm.run("cat /dev/zero > /run/full").exit_code != 0
    assert vm.run("cat /dev/zero > /dev/shm/full").exit_code != 0
    vm.run("rm /dev/shm/full /run/full")
    assert vm.says("echo well") == "well"


def test_all_of_a_vm_is_in_its_groups(host: Host, boot: Boot) -> None:
    vm = boot(network=True)
    start(vm.connection, CommandSpec("exec sleep 60"))
    vm.says("setsid -f sleep 60 > /dev/null 2>&1")
    limits, name = vm.provider.limits, vm.provider.group_name(vm.id)
    of_job, of_service = limits.groups(name), limits.groups(f"{name}@service")
    assert {*map(Path, vm.folder.record().groups)} == {*of_job, *of_service}
    for job, service in zip(of_job, of_service, strict=True):
        until(partial(sleeps, job), "only sleeps in the job's group")
        assert {str(pid) for pid in host.processes() if Path(f"/proc/{pid}").exists()} <= _pids(job) | _pids(service)


def sleeps(group: Path) -> bool:
    """Tell whether a control group has two processes, and both have become `sleep`."""
    with contextlib.suppress(FileNotFoundError):  # one has just ended
        return [Path(f"/proc/{pid}/comm").read_text() for pid in _pids(group)] == ["sleep\n"] * 2
    return False


def _pids(group: Path) -> set[str]:
    return set((group / "cgroup.procs").read_text().split())


def test_enforcement_is_described_for_each_part_of_a_shape() -> None:
    assert [each.resource for each in VmLimits.of_host(100).describe()] == ["cpu", "memory", "pids", "disk"]
    without = {each.resource: each.enforced for each in VmLimits(100, ()).describe()}
    assert without == {"cpu": False, "memory": False, "pids": True, "disk": True}


def describe_host(folder: Path, *, cgroup: str, mounts: list[str], files: dict[str, str] | None = None) -> Path:
    """Write the ``/proc/self`` and control-group files of an imagined host."""
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text("".join(f"{line}\n" for line in mounts))
    for name, content in (files or {}).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return proc


def second_version(at: str, controllers: str = "cpuset cpu io memory pids", processes: str = "") -> dict[str, str]:
    return {
        f"{at}/cgroup.controllers": controllers,
        f"{at}/cgroup.subtree_control": "",
        f"{at}/cgroup.procs": processes,
    }


def test_version_1_groups_are_at_the_top_of_the_hierarchy(tmp_path: Path) -> None:
    proc = describe_host(
        tmp_path,
        cgroup="4:memory:/system/ci.service\n3:cpu,cpuacct:/system/ci.service\n1:name=systemd:/x\n0::/\n",
        mounts=[
            f"30 20 0:1 / {tmp_path}/memory rw - cgroup cgroup rw,memory",
            f"31 20 0:1 / {tmp_path}/cpu rw - cgroup cgroup rw,cpu,cpuacct",
            f"32 20 0:1 / {tmp_path}/unified rw - cgroup2 cgroup2 rw",
        ],
        files={"memory/system/cgroup.procs": "", "cpu/system/cgroup.procs": "", **second_version("unified", "hugetlb")},
    )
    assert find_hierarchies(proc) == [
        Hierarchy(1, ("memory",), tmp_path / "memory"),
        Hierarchy(1, ("cpu",), tmp_path / "cpu"),
    ]


def test_a_container_makes_groups_in_its_part_of_the_tree(tmp_path: Path) -> None:
    proc = describe_host(
        tmp_path,
        cgroup="4:pids:/docker/abc\n",
        mounts=[f"30 20 0:1 /docker/abc {tmp_path}/pids rw - cgroup cgroup rw,pids"],
        files={"pids/cgroup.procs": ""},
    )
    assert find_hierarchies(proc) == [Hierarchy(1, ("pids",), tmp_path / "pids")]


def test_a_hierarchy_that_is_mounted_twice_is_one(tmp_path: Path) -> None:
    mount = f"30 20 0:1 / {tmp_path}/pids rw - cgroup cgroup rw,pids"
    proc = describe_host(tmp_path, cgroup="4:pids:/a\n", mounts=[mount, mount], files={"pids/cgroup.procs": ""})
    assert find_hierarchies(proc) == [Hierarchy(1, ("pids",), tmp_path / "pids")]


def test_a_delegated_group_is_the_parent_of_vm_groups(tmp_path: Path) -> None:
    service = "unified/system.slice/ci.service"
    proc = describe_host(
        tmp_path,
        cgroup="0::/system.slice/ci.service\n",
        mounts=[f"30 20 0:1 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"],
        files={**second_version("unified"), **second_version(service, processes=f"{os.getpid()}\n")},
    )
    own = tmp_path / service
    (found,) = find_hierarchies(proc)
    assert found == Hierarchy(2, ("cpu", "memory", "pids"), own, (own,), own)
    (own / "daemon").mkdir()
    (own / "daemon" / "cgroup.procs").write_text("")
    with contextlib.suppress(FileNotFoundError):
        found.make("vm", GroupLimits(cpu=2, memory=1 << 30, pids=64))
    assert (own / "daemon" / "cgroup.procs").read_text() == str(os.getpid())
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_a_service_in_a_delegated_leaf_makes_groups_beside_it(tmp_path: Path) -> None:
    service = "unified/system.slice/ci.service"
    proc = describe_host(
        tmp_path,
        cgroup="0::/system.slice/ci.service/daemon\n",
        mounts=[f"30 20 0:1 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"],
        files={**second_version(service), **second_version(f"{service}/daemon", processes="1\n2\n")},
    )
    assert find_hierarchies(proc) == [
        Hierarchy(2, ("cpu", "memory", "pids"), tmp_path / service, (tmp_path / service,)),
    ]


def test_vms_are_in_the_group_of_their_starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have any controllers."""
    service, kept = "unified/ci.slice/ci-daemon.service", "unified/ci.slice/ci-vms.slice/ci-daemon-vms.service"
    proc = describe_host(
        tmp_path,
        cgroup="0::/ci.slice/ci-daemon.service\n",
        mounts=[f"30 20 0:1 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"],
        files={
            **second_version(service, processes=f"{os.getpid()}\n"),
            **second_version(kept, controllers="pids"),
        },
    )
    (own,) = find_hierarchies(proc)
    assert own.parent == tmp_path / service
    in_the_unit = {BROKER_VARIABLE: ""}
    assert find_hierarchies(proc, in_the_unit) == [Hierarchy(2, ("pids",), tmp_path / kept, (tmp_path / kept,))]
    monkeypatch.setenv(BROKER_VARIABLE, "/run/ci-daemon-vms/starter")
    assert find_hierarchies(proc) == [Hierarchy(2, ("pids",), tmp_path / kept, (tmp_path / kept,))]
    (tmp_path / kept / "cgroup.controllers").write_text("hugetlb")
    assert find_hierarchies(proc) == [Hierarchy(2, (), tmp_path / kept, (tmp_path / kept,))]


def test_root_without_a_delegated_group_makes_one_at_the_top(tmp_path: Path) -> None:
    proc = describe_host(
        tmp_path,
        cgroup="0::/user.slice/session-1.scope\n",
        mounts=[f"30 20 0:1 / {tmp_path}/unified rw - cgroup2 cgroup2 rw"],
        files={**second_version("unified"), **second_version("unified/user.slice/session-1.scope", processes="1\n2\n")},
    )
    top = tmp_path / "unified"
    assert find_hierarchies(proc) == [
        Hierarchy(2, ("cpu", "memory", "pids"), top / "ci-daemon", (top, top / "ci-daemon")),
    ]


def test_where_nothing_may_be_written_there_are_no_groups(tmp_path: Path) -> None:
    proc = describe_host(
        tmp_path,
        cgroup="4:memory:/a/b\n0::/a\n",
        mounts=[
            f"30 20 0:1 / {tmp_path}/nowhere rw - cgroup cgroup rw,memory",
            f"31 20 0:1 / {tmp_path}/nowhere2 rw - cgroup2 cgroup2 rw",
        ],
    )
    assert find_hierarchies(proc) == []


def test_settings_of_version_2(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    group = parent / "vm"
    hierarchy = Hierarchy(2, ("cpu", "memory", "pids"), parent)
    parent.mkdir()
    hierarchy.make("vm", GroupLimits(cpu=3, memory=1 << 30, pids=64))
    written = {path.name: path.read_text() for path in group.iterdir()}
    assert written == {
        "cpu.max": "300000 100000",
        "cpu.weight": "100",
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "pids.max": "64",
    }


def test_a_vm_whose_groups_cannot_be_made_is_not_made(host: Host, tmp_path: Path) -> None:
    provider = host.provider()
    provider.limits = VmLimits(100, (Hierarchy(2, ("pids",), tmp_path / "not there"),))
    with pytest.raises(VmError, match="cannot be created"):
        provider.create(VmSpec(host.name(), IMAGE, network=False))
    assert list(provider.list()) == []


def test_a_group_in_use_is_not_removed_in_silence(boot: Boot) -> None:
    vm = boot()
    vm.says("setsid -f sleep 60 > /dev/null 2>&1")
    groups = [Path(group) for group in vm.folder.record().groups]
    if groups:
        with pytest.raises(VmError, match="cannot be removed"):
            remove_groups(groups, seconds=0.0)
    assert vm.says("echo well") == "well"
