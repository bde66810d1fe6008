from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_daemon.doctor import apply_fixes, host


def test_a_tun_device_closed_to_others_is_found_and_fixed(tmp_path: Path):
    device = tmp_path / "tun"
    device.touch(mode=0o600)
    check = host.tun(device)
    assert (check.ok, check.fix) == (False, f"chmod 0666 {device}")
    assert [(done.command, done.error) for done in apply_fixes([check])] == [(check.fix, None)]
    assert host.tun(device).ok


def test_a_tun_device_that_is_missing_is_found(tmp_path: Path):
    check = host.tun(tmp_path / "net" / "tun")
    assert not check.ok
    assert "mknod -m 0666" in check.fix


@pytest.mark.parametrize(
    ("key", "value"),
    [("user/max_user_namespaces", "0"), *([] if os.geteuid() == 0 else [("kernel/unprivileged_userns_clone", "0")])],
)
def test_forbidden_user_namespaces_are_found_with_the_switch(tmp_path: Path, key: str, value: str):
    assert host.namespaces(tmp_path).ok
    (tmp_path / key).parent.mkdir()
    (tmp_path / key).write_text(f"{value}\n")
    check = host.namespaces(tmp_path)
    assert not check.ok
    assert f"sysctl -w {key.replace('/', '.')}=" in check.fix


def test_refused_user_namespaces_are_not_blamed_on_overlayfs(tmp_path: Path):
    # No process in a chroot may make one, whatever the kernel's switches say.
    script = (
        "import sys, pathlib; from ci_daemon.doctor import run_checks\n"
        "for each in run_checks(pathlib.Path(sys.argv[1], 'state'), {}): print(each.name, each.ok, each.detail)"
    )
    chroot = f'mount --rbind / "$1"; exec chroot "$1" sh -c \'cd "$0"; exec "$@"\' {Path.cwd()} "$2" -c "$3" "$1"'
    argv = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-ec",
        chroot,
        "sh",
        tmp_path,
        sys.executable,
        script,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "namespaces False user namespaces, which VMs need, are not allowed here (Operation not" in done.stdout
    assert "overlay " not in done.stdout


def test_a_container_without_rights_is_told_how_to_start(tmp_path: Path):
    script = (
        "import sys, pathlib; from ci_daemon.doctor import needed_by_vms\n"
        "for each in needed_by_vms(pathlib.Path(sys.argv[1])): print(each.name, each.ok, each.detail)"
    )
    read_only = 'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; exec "$@"'
    inside = ["sh", "-ec", read_only, "sh", sys.executable, "-c", script, tmp_path]
    argv = ["unshare", "--user", "--map-root-user", "--mount", *inside]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "because /proc/sys is read-only: start a container with more rights (podman, docker: --priv" in done.stdout
    assert "tun " not in done.stdout


def test_a_clock_before_the_installation_is_found(tmp_path: Path):
    installed = tmp_path / "installed"
    installed.touch()
    os.utime(installed, (2**40, 2**40))
    assert not host.clock(installed).ok
    os.utime(installed, (1, 1))
    assert host.clock(installed).ok


def test_the_overlay_is_mounted_even_below_a_private_folder(tmp_path: Path):
    tmp_path.chmod(0o700)
    assert host.overlay(tmp_path / "not" / "there" / "yet").detail.startswith("overlays can be mounted below")
    assert list(tmp_path.iterdir()) == []


def test_where_no_overlay_can_be_mounted_it_says_where_to_go():
    check = host.overlay(Path("/proc"))
    assert not check.ok
    assert "put it on ext4" in check.detail


def test_programs_that_are_missing_are_found_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {check.name: check for check in host.packages()}
    assert found["network"].fix == "apt-get install -y slirp4netns"
    assert found["mmdebstrap"].fix == "apt-get install -y mmdebstrap"
    assert not found["mmdebstrap"].needed
    (tmp_path / "apt-get").unlink()
    assert {check.fix for check in host.packages()} == {None}


def test_a_python_that_reads_some_archives_slowly_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "_HEADER_SECONDS", -1.0)
    assert host.python().ok
    assert "CVE-2024-6232" in host.python().detail
    monkeypatch.setattr(host, "_HEADER_SECONDS", 60.0)
    assert "CVE" not in host.python().detail


def test_a_too_old_python_is_reported_first():
    code = "import sys; sys.version_info = (3, 10, 1)\nfrom ci_daemon.doctor import host\nprint(host.python())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Python 3.10.1 is too old" in done.stdout
