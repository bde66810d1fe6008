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

from actors.vms.sandbox import SandboxSettings
from actors.vms.sandbox.limits import Limits
from actors.vms.sandbox.program import STARTER
from ci_daemon.command import main
from ci_daemon.config import Config, ImageSettings
from ci_daemon.doctor import Check, commands, host, mend, service, state
from ci_daemon.doctor.check import from_message
from ci_daemon.doctor.isolation import isolation
from ci_daemon.doctor.limits import enforcement
from ci_daemon.doctor.sharing import sharing
from storage import Storage, SystemClock


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    Storage.create(tmp_path / "state", SystemClock()).close()
    return tmp_path / "state"


def test_a_message_that_ends_in_a_command_becomes_a_finding_and_its_mend():
    check = from_message("sub-ids", "ada has no range: run `sudo usermod --add-subuids 1-2 ada`")
    assert (check.detail, check.mend) == ("ada has no range", "usermod --add-subuids 1-2 ada")
    assert check.command(as_root=False) == "sudo usermod --add-subuids 1-2 ada"
    assert check.command(as_root=True) == "usermod --add-subuids 1-2 ada"


def test_a_message_without_a_command_is_a_finding_without_a_mend():
    check = from_message("sub-ids", "user id 7 has no entry in /etc/passwd")
    assert (check.ok, check.mend, check.fixable) == (False, None, False)


def test_a_tun_device_that_only_root_may_open_is_found_and_mended(tmp_path: Path):
    device = tmp_path / "tun"
    device.touch(mode=0o600)
    check = host.tun(device)
    assert (check.ok, check.mend) == (False, f"chmod 0666 {device}")
    assert [(done.command, done.fault) for done in mend([check])] == [(check.mend, None)]
    assert host.tun(device).ok


def test_a_tun_device_that_is_missing_is_found(tmp_path: Path):
    check = host.tun(tmp_path / "net" / "tun")
    assert not check.ok
    assert "mknod -m 0666" in check.mend


@pytest.mark.parametrize(
    ("key", "value"),
    [("user/max_user_namespaces", "0"), *([] if os.geteuid() == 0 else [("kernel/unprivileged_userns_clone", "0")])],
)
def test_a_kernel_that_forbids_user_namespaces_is_found_with_the_switch(tmp_path: Path, key: str, value: str):
    assert host.namespaces(tmp_path).ok
    (tmp_path / key).parent.mkdir()
    (tmp_path / key).write_text(f"{value}\n")
    check = host.namespaces(tmp_path)
    assert not check.ok
    assert f"sysctl -w {key.replace('/', '.')}=" in check.mend


def test_a_place_that_may_not_make_user_namespaces_is_found_and_no_overlay_blamed(tmp_path: Path):
    # No process in a chroot may make one, whatever the kernel's switches say.
    looks = (
        "import sys, pathlib; from ci_daemon.doctor import examine\n"
        "for each in examine(pathlib.Path(sys.argv[1], 'state'), {}): print(each.name, each.ok, each.detail)"
    )
    enters = f'mount --rbind / "$1"; exec chroot "$1" sh -c \'cd "$0"; exec "$@"\' {Path.cwd()} "$2" -c "$3" "$1"'
    argv = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-ec",
        enters,
        "sh",
        tmp_path,
        sys.executable,
        looks,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "namespaces False user namespaces, which VMs are made of, are not allowed here (Operation not" in done.stdout
    assert "overlay " not in done.stdout


def test_a_clock_before_the_installation_is_found(tmp_path: Path):
    landmark = tmp_path / "landmark"
    landmark.touch()
    os.utime(landmark, (2**40, 2**40))
    assert not host.clock(landmark).ok
    os.utime(landmark, (1, 1))
    assert host.clock(landmark).ok


def test_an_overlay_is_really_mounted_even_below_a_folder_that_is_closed_to_others(tmp_path: Path):
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
    assert found["network"].mend == "apt-get install -y slirp4netns"
    assert found["mmdebstrap"].mend == "apt-get install -y mmdebstrap"
    assert not found["mmdebstrap"].needed
    (tmp_path / "apt-get").unlink()
    assert {check.mend for check in host.packages()} == {None}


def test_a_state_directory_is_looked_at_as_its_owner_left_it(state_dir: Path):
    assert state.state_directory(state_dir).ok
    (state_dir / "secret.key").chmod(0o644)
    opened = state.state_directory(state_dir)
    assert opened.mend == f"chmod 0600 {state_dir}/secret.key"
    assert not opened.root
    list(mend([opened]))
    assert state.state_directory(state_dir).ok
    (state_dir / "secret.key").unlink()
    assert "bring it back from a backup" in state.state_directory(state_dir).detail


def test_a_state_directory_and_a_database_that_are_open_to_others_are_closed(state_dir: Path):
    for path, closed in ((state_dir, 0o700), (state_dir / "ci-daemon.sqlite3", 0o600)):
        path.chmod(0o755)
        list(mend([state.state_directory(state_dir)]))
        assert path.stat().st_mode & 0o777 == closed
    assert state.state_directory(state_dir).ok


def test_a_database_that_is_damaged_or_newer_is_told_with_what_to_do(state_dir: Path):
    path = state_dir / "ci-daemon.sqlite3"
    assert state.database(state_dir).detail.startswith("the database is whole, at schema ")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    assert "a newer release has written it (schema 9999" in state.database(state_dir).detail
    content = path.read_bytes()
    path.write_bytes(content[:8192] + bytes(8192) + content[16384:])
    damaged = state.database(state_dir)
    assert (damaged.ok, damaged.needed) == (False, True)
    assert "`ci-daemon restore`" in damaged.detail


def test_a_configuration_that_is_wrong_is_a_finding_among_the_others(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
):
    (state_dir / "ci-daemon.toml").write_text("[http]\nlisten = 8800\nlisen = 1\n")
    assert main(["--state-dir", str(state_dir), "doctor", "--json"]) == 1
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert ":2: http.listen: expected a valid string" in found["configuration"]["detail"]
    assert "(and 1 more: see `ci-daemon config check`)" in found["configuration"]["detail"]
    assert found["state"]["ok"]


def test_an_address_that_is_taken_is_told(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        check = service.address(tmp_path, listen)
    assert not check.ok
    assert check.detail.startswith(f"the service cannot listen on {listen}: Address already in use")
    assert service.address(tmp_path, "127.0.0.1:0").ok


@pytest.mark.parametrize(
    ("enabled", "active", "said", "mends"),
    [
        ("enabled", "active", "runs, and starts with the host", None),
        ("enabled", "failed", "is failed", "systemctl start ci-daemon.service"),
        ("disabled", "active", "is disabled", "systemctl enable ci-daemon.service"),
        ("not-found", "inactive", "is not installed", "ci-daemon install"),
    ],
)
def test_a_service_that_systemd_does_not_keep_running_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: str, active: str, said: str, mends: str | None
):
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\n[ $1 = is-enabled ] && echo {enabled} || echo {active}\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(service, "_SYSTEMD", tmp_path)
    assert list(service.unit(tmp_path)) == []
    (check,) = service.unit(Path("/var/lib/ci-daemon"))
    assert said in check.detail
    assert check.mend == mends


def test_where_vms_go_is_told_of_the_unit_and_not_of_the_shell_that_asks(tmp_path: Path):
    assert service.environment(Path("/var/lib/ci-daemon"), {"PATH": "/bin"}).keys() == {"PATH", "CI_DAEMON_STARTER"}
    assert service.environment(tmp_path, {"PATH": "/bin"}) == {"PATH": "/bin"}


def test_no_state_directory_is_told_with_the_command_that_makes_it(tmp_path: Path):
    check = state.state_directory(tmp_path)
    assert check.command(as_root=False) == f"ci-daemon --state-dir {tmp_path} init"


def test_a_directory_with_a_space_in_its_name_is_quoted_where_it_is_to_be_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    directory = tmp_path / "my state"
    assert main(["--state-dir", str(directory), "doctor", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert f"run `ci-daemon --state-dir '{directory}' init`" in out
    assert "database" not in out
    assert main(["--state-dir", str(directory), "user", "list"]) == 1
    assert f"run `ci-daemon --state-dir '{directory}' init`" in capsys.readouterr().err


def test_a_read_only_file_system_is_told_as_such(state_dir: Path):
    mounts = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; exec "$2" -m ci_daemon --state-dir "$1" doctor'
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", mounts, "sh", state_dir, sys.executable]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert f"state: {state_dir} is on a read-only file system: mount that for writing\n" in done.stdout
    assert "database: the database can be examined only where it can be written, too\n" in done.stdout


def test_a_missing_image_is_told_with_the_command_that_builds_it(tmp_path: Path, images_dir: Path):
    assert state.default_image(tmp_path, Config(images=ImageSettings(dir=images_dir))).ok
    check = state.default_image(tmp_path, Config())
    assert check.mend == f"ci-daemon --state-dir {tmp_path} image build debian:12"
    assert not check.needed


def test_what_of_a_shape_is_not_enforced_is_told_and_fails_nothing():
    found = {check.name: check for check in enforcement(Limits(100, {}))}
    assert not found["limit on memory"].ok
    assert "by the units in systemd/" in found["limit on memory"].detail
    assert not any(check.needed for check in found.values() if not check.ok)


def test_it_says_what_the_sandbox_is_and_is_not():
    found = {check.name: check for check in isolation(SandboxSettings(), {STARTER: ""})}
    assert all(check.ok for check in found.values())
    assert "not machines: all share this kernel and one range of host ids" in found["sandbox"].detail
    assert "jobs can make no user namespaces" in found["nested namespaces"].detail


def test_it_says_what_the_owner_or_the_host_leaves_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "status").write_text("Name:\tpython3\nCapEff:\t0000000000000000\n")
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    found = {
        check.name: check for check in isolation(SandboxSettings(user_namespaces=True), {}, status=tmp_path / "status")
    }
    assert [name for name, check in found.items() if not check.ok and check.needed] == ["system calls"]
    assert [name for name, check in found.items() if not check.ok and not check.needed] == [
        "nested namespaces",
        "out of memory",
    ]
    assert "as root with CAP_SYS_RESOURCE" in found["out of memory"].detail


def test_bounds_that_one_job_could_take_whole_are_found_with_their_mend(tmp_path: Path):
    for key, value in (
        ("fs/pipe-user-pages-soft", 0),
        ("fs/inotify/max_user_instances", 128),
        ("fs/file-max", 1 << 60),
    ):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text(f"{value}\n")
    found = {check.name: check for check in sharing(tmp_path)}
    assert [name for name, check in found.items() if not check.ok] == ["fs.inotify.max_user_instances"]
    low = found["fs.inotify.max_user_instances"]
    assert "sysctl -w fs.inotify.max_user_instances=8192" in (low.mend or "")
    assert not low.needed
    assert commands([low]) == []
    assert "all VMs together" in found["descriptors in flight"].detail


def test_room_is_measured_where_the_state_directory_is_or_will_be(tmp_path: Path):
    assert f"below {tmp_path}" in state.room(tmp_path / "not" / "yet").detail


def test_a_mend_that_fails_says_what_the_command_said(tmp_path: Path):
    done = list(mend([Check("x", ok=False, detail="", mend="sh -c 'echo first; echo no luck; exit 3'")]))
    assert done[0].fault == "no luck"
    assert next(mend([Check("x", ok=False, detail="", mend="false")])).fault == "ended with 1"
    assert "No such file" in next(mend([Check("x", ok=False, detail="", mend=str(tmp_path / "none"))])).fault


def test_an_installation_with_stale_lists_renews_them_and_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "log"
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$1" >> {log}\n[ "$1" = update ] || grep -q update {log}\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = list(mend([Check("x", ok=False, detail="", mend="apt-get install -y thing")]))
    assert [each.fault for each in done] == [None]
    assert log.read_text().split() == ["install", "update", "install"]


def test_all_packages_are_installed_by_one_command():
    checks = [
        Check("a", ok=False, detail="", mend="apt-get install -y a"),
        Check("b", ok=False, detail="", mend="chmod 0666 b"),
        Check("c", ok=False, detail="", mend="apt-get install -y c", needed=False),
        Check("d", ok=True, detail="", mend="apt-get install -y d"),
    ]
    assert commands(checks) == ["apt-get install -y a c", "chmod 0666 b"]


def test_what_takes_root_is_said_in_one_line_too(
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


def test_only_what_failed_and_is_safe_to_mend_is_mended():
    checks = [
        Check("well", ok=True, detail="", mend="false"),
        Check("careful", ok=False, detail="", mend="false", fixable=False),
        Check("hopeless", ok=False, detail=""),
    ]
    assert list(mend(checks)) == []


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
    assert f"lacks state: {tmp_path} is no state directory yet: run `ci-daemon --state-dir {tmp_path} init`" in out
    assert "python" not in out


def test_fix_mends_what_it_may_and_looks_again(state_dir: Path, capsys: pytest.CaptureFixture[str]):
    (state_dir / "secret.key").chmod(0o644)
    main(["--state-dir", str(state_dir), "doctor", "--fix"])
    said = capsys.readouterr()
    assert f"ran: chmod 0600 {state_dir}/secret.key" in said.err
    assert "ok    state:" in said.out


def test_python_that_is_too_old_is_told_before_anything_else():
    code = "import sys; sys.version_info = (3, 10, 1)\nfrom ci_daemon.doctor import host\nprint(host.python())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Python 3.10.1 is too old" in done.stdout
