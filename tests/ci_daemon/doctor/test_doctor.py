from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.vms.images import ImageSettings
from actors.vms.sandbox import BROKER_VARIABLE, SandboxSettings, VmLimits
from ci_daemon.command import main
from ci_daemon.config import Config
from ci_daemon.doctor import Check, apply_fixes, fix_commands, host, service, state
from ci_daemon.doctor.check import failed_from_message
from ci_daemon.doctor.isolation import isolation
from ci_daemon.doctor.shared_limits import shared_limits
from ci_daemon.doctor.vm_limits import vm_limits
from storage import SystemClock
from tests.state import new_storage


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    new_storage(tmp_path / "state", SystemClock()).close()
    return tmp_path / "state"


def test_a_message_that_ends_in_a_command_has_a_fix():
    check = failed_from_message("sub-ids", "ada has no range: run `sudo usermod --add-subuids 1-2 ada`")
    assert (check.detail, check.fix) == ("ada has no range", "usermod --add-subuids 1-2 ada")
    assert check.command(as_root=False) == "sudo usermod --add-subuids 1-2 ada"
    assert check.command(as_root=True) == "usermod --add-subuids 1-2 ada"


def test_a_message_without_a_command_has_no_fix():
    check = failed_from_message("sub-ids", "user id 7 has no entry in /etc/passwd")
    assert (check.ok, check.fix, check.fixable) == (False, None, False)


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
    assert "put --state-dir on ext4" in check.detail


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


def test_a_state_directory_is_looked_at_as_its_owner_left_it(state_dir: Path):
    assert state.state_directory(state_dir).ok
    (state_dir / "secret.key").chmod(0o644)
    opened = state.state_directory(state_dir)
    assert opened.fix == f"chmod 0600 {state_dir}/secret.key"
    assert not opened.root
    list(apply_fixes([opened]))
    assert state.state_directory(state_dir).ok
    (state_dir / "secret.key").unlink()
    assert "restore it from a backup" in state.state_directory(state_dir).detail


def test_an_open_state_directory_and_database_are_closed(state_dir: Path):
    for path, closed in ((state_dir, 0o700), (state_dir / "ci-daemon.sqlite3", 0o600)):
        path.chmod(0o755)
        list(apply_fixes([state.state_directory(state_dir)]))
        assert path.stat().st_mode & 0o777 == closed
    assert state.state_directory(state_dir).ok


def test_a_damaged_or_newer_database_is_found_with_advice(state_dir: Path):
    path = state_dir / "ci-daemon.sqlite3"
    assert state.database(state_dir).detail.startswith("the database is intact, at schema ")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    assert "a newer release wrote the database (schema 9999" in state.database(state_dir).detail
    content = path.read_bytes()
    path.write_bytes(content[:8192] + bytes(8192) + content[16384:])
    damaged = state.database(state_dir)
    assert (damaged.ok, damaged.needed) == (False, True)
    assert "`ci-daemon restore`" in damaged.detail


def test_a_wrong_configuration_is_a_finding_among_others(state_dir: Path, capsys: pytest.CaptureFixture[str]):
    (state_dir / "ci-daemon.toml").write_text("[http]\nlisten = 8800\nlisen = 1\n")
    assert main(["--state-dir", str(state_dir), "doctor", "--json"]) == 1
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert ":2: http.listen: expected a string" in found["configuration"]["detail"]
    assert "(and 1 more: see `ci-daemon config check`)" in found["configuration"]["detail"]
    assert found["state"]["ok"]


def test_an_address_in_use_is_reported(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        check = service.address(tmp_path, listen)
    assert not check.ok
    assert check.detail.startswith(f"the service cannot listen on {listen}: Address already in use")
    assert service.address(tmp_path, "127.0.0.1:0").ok


@pytest.mark.parametrize(
    ("enabled", "active", "detail", "fix"),
    [
        ("enabled", "active", "runs, and starts at boot", None),
        ("enabled", "failed", "is failed", "systemctl start ci-daemon.service"),
        ("disabled", "active", "is disabled", "systemctl enable ci-daemon.service"),
        ("not-found", "inactive", "is not installed", "ci-daemon install"),
    ],
)
def test_a_service_without_systemd_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: str, active: str, detail: str, fix: str | None
):
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\n[ $1 = is-enabled ] && echo {enabled} || echo {active}\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert list(service.unit(tmp_path, systemd=tmp_path)) == []
    (check,) = service.unit(Path("/var/lib/ci-daemon"), systemd=tmp_path)
    assert detail in check.detail
    assert check.fix == fix


def test_the_starter_is_the_units_not_that_of_the_shell(tmp_path: Path):
    assert service.environment(Path("/var/lib/ci-daemon"), {"PATH": "/bin"}).keys() == {"PATH", "CI_DAEMON_STARTER"}
    assert service.environment(tmp_path, {"PATH": "/bin"}) == {"PATH": "/bin"}


def test_a_missing_state_directory_is_found_with_its_command(tmp_path: Path):
    check = state.state_directory(tmp_path)
    assert check.command(as_root=False) == f"ci-daemon --state-dir {tmp_path} init"


def test_a_directory_with_a_space_is_quoted_in_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    directory = tmp_path / "my state"
    assert main(["--state-dir", str(directory), "doctor", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert f"run `ci-daemon --state-dir '{directory}' init`" in out
    assert "database" not in out
    assert main(["--state-dir", str(directory), "user", "list"]) == 1
    assert f"run `ci-daemon --state-dir '{directory}' init`" in capsys.readouterr().err


def test_a_read_only_file_system_is_reported_as_such(state_dir: Path):
    mounts = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; exec "$2" -m ci_daemon --state-dir "$1" doctor'
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", mounts, "sh", state_dir, sys.executable]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert f"state: {state_dir} is on a read-only file system: remount it writable\n" in done.stdout
    assert "database: the database cannot be checked without write access\n" in done.stdout


def test_a_missing_image_is_reported_with_its_build_command(tmp_path: Path, images_dir: Path):
    assert state.default_image(tmp_path, Config(images=ImageSettings(dir=images_dir))).ok
    check = state.default_image(tmp_path, Config())
    assert check.fix == f"ci-daemon --state-dir {tmp_path} image build debian:12"
    assert not check.needed


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


def test_free_space_is_that_of_the_future_state_directory(tmp_path: Path):
    assert f"below {tmp_path}" in state.disk_space(tmp_path / "not" / "yet").detail


def test_a_fix_that_fails_shows_the_output_of_its_command(tmp_path: Path):
    done = list(apply_fixes([Check("x", ok=False, detail="", fix="sh -c 'echo first; echo no luck; exit 3'")]))
    assert done[0].error == "no luck"
    assert next(apply_fixes([Check("x", ok=False, detail="", fix="false")])).error == "ended with 1"
    assert "No such file" in next(apply_fixes([Check("x", ok=False, detail="", fix=str(tmp_path / "none"))])).error


def test_stale_package_lists_are_updated_before_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "log"
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$1" >> {log}\n[ "$1" = update ] || grep -q update {log}\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = list(apply_fixes([Check("x", ok=False, detail="", fix="apt-get install -y thing")]))
    assert [each.error for each in done] == [None]
    assert log.read_text().split() == ["install", "update", "install"]


def test_all_packages_are_installed_by_one_command():
    checks = [
        Check("a", ok=False, detail="", fix="apt-get install -y a"),
        Check("b", ok=False, detail="", fix="chmod 0666 b"),
        Check("c", ok=False, detail="", fix="apt-get install -y c", needed=False),
        Check("d", ok=True, detail="", fix="apt-get install -y d"),
    ]
    assert fix_commands(checks) == ["apt-get install -y a c", "chmod 0666 b"]


def test_fixes_that_need_root_are_one_command(
    monkeypatch: pytest.MonkeyPatch, state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--state-dir", str(state_dir), "doctor", "--quiet"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("all at once: ")
    assert "apt-get install -y" in last
    assert "slirp4netns mmdebstrap skopeo umoci git" in last


def test_only_failures_with_a_safe_fix_are_fixed():
    checks = [
        Check("well", ok=True, detail="", fix="false"),
        Check("careful", ok=False, detail="", fix="false", fixable=False),
        Check("hopeless", ok=False, detail=""),
    ]
    assert list(apply_fixes(checks)) == []


def test_the_command_tells_everything_as_json(state_dir: Path, capsys: pytest.CaptureFixture[str]):
    main(["--state-dir", str(state_dir), "doctor", "--json"])
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert found["state"]["ok"]
    assert set(found["python"]) == {"name", "ok", "needed", "detail", "mend"}
    assert {
        "overlay",
        "tun",
        "sub-ids",
        "namespaces",
        "clock",
        "disk",
        "database",
        "address",
        "limit on memory",
    } <= set(found)


def test_the_command_fails_where_something_needed_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--state-dir", str(tmp_path), "doctor", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert f"fail  state: {tmp_path} is not a state directory yet: run `ci-daemon --state-dir {tmp_path} init`" in out
    assert "python" not in out


def test_fix_runs_safe_commands_and_checks_again(state_dir: Path, capsys: pytest.CaptureFixture[str]):
    (state_dir / "secret.key").chmod(0o644)
    main(["--state-dir", str(state_dir), "doctor", "--fix"])
    detail = capsys.readouterr()
    assert f"ran: chmod 0600 {state_dir}/secret.key" in detail.err
    assert "ok    state:" in detail.out


def test_a_too_old_python_is_reported_first():
    code = "import sys; sys.version_info = (3, 10, 1)\nfrom ci_daemon.doctor import host\nprint(host.python())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Python 3.10.1 is too old" in done.stdout
