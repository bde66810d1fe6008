from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.vms import SandboxSettings
from actors.vms.host import BROKER_VARIABLE, VmLimits
from ci_daemon.doctor import fix_commands
from ci_daemon.doctor.isolation import isolation
from ci_daemon.doctor.limits import shared_limits, vm_limits


def test_unenforced_parts_of_a_shape_are_warnings():
    found = {check.name: check for check in vm_limits(VmLimits(100, {}))}
    assert not found["limit on memory"].ok
    assert "with the units in systemd/" in found["limit on memory"].detail
    assert not any(check.needed for check in found.values() if not check.ok)


def test_it_describes_the_sandboxes_isolation(tmp_path: Path):
    process = a_process(tmp_path, effective=0, bounding=1 << 24)
    found = {check.name: check for check in isolation(SandboxSettings(), {BROKER_VARIABLE: ""}, process)}
    assert all(check.ok for check in found.values())
    assert "not machines: all share this kernel and one range of host ids" in found["sandbox"].detail
    assert "jobs cannot create user namespaces" in found["nested namespaces"].detail


def test_it_lists_what_the_settings_or_the_host_leave_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    process = a_process(tmp_path, effective=0, bounding=1 << 24)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    found = {check.name: check for check in isolation(SandboxSettings(user_namespaces=True), {}, process)}
    assert [name for name, check in found.items() if not check.ok and check.needed] == ["system calls"]
    assert [name for name, check in found.items() if not check.ok and not check.needed] == [
        "nested namespaces",
        "out of memory",
    ]
    assert "whose root has CAP_SYS_RESOURCE" in found["out of memory"].detail


@pytest.mark.parametrize("container", [False, True])
@pytest.mark.parametrize("has", [False, True])
@pytest.mark.parametrize("environ", [{}, {BROKER_VARIABLE: ""}], ids=["by hand", "by its units"])
def test_only_the_hosts_root_enforces_the_minimum_oom_score(
    tmp_path: Path, environ: dict[str, str], has: bool, container: bool
):
    capabilities = (1 << 41) - 1 if has else ((1 << 41) - 1) & ~(1 << 24)
    process = a_process(tmp_path, effective=0 if environ else capabilities, bounding=capabilities)
    if container:
        (process / "uid_map").write_text("         0     100000      65536\n")
    checks = {check.name: check for check in isolation(SandboxSettings(), environ, process)}
    assert checks["out of memory"].ok is (has and not container)


def a_process(folder: Path, effective: int, bounding: int) -> Path:
    """Write what ``/proc`` shows of a process of the host with these capabilities; return its folder."""
    (folder / "status").write_text(f"Name:\tpython3\nCapEff:\t{effective:016x}\nCapBnd:\t{bounding:016x}\n")
    (folder / "uid_map").write_text("         0          0 4294967295\n")
    return folder


def test_limits_that_one_job_could_use_up_are_found_with_a_fix(tmp_path: Path):
    for key, value in (
        ("fs/pipe-user-pages-soft", 0),
        ("fs/inotify/max_user_instances", 128),
        ("fs/file-max", 1 << 60),
    ):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text(f"{value}\n")
    found = {check.name: check for check in shared_limits(tmp_path)}
    assert [name for name, check in found.items() if not check.ok] == ["fs.inotify.max_user_instances"]
    low = found["fs.inotify.max_user_instances"]
    assert "sysctl -w fs.inotify.max_user_instances=8192" in (low.fix or "")
    assert not low.needed
    assert fix_commands([low]) == []
    assert "all VMs share one limit" in found["descriptors in flight"].detail
