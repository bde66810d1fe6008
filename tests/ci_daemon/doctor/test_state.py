from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from actors.vms import ImageSettings, SandboxSettings
from ci_daemon.command import main
from ci_daemon.config import Config
from ci_daemon.doctor import Check, apply_fixes, state


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


def test_the_image_whose_sshd_serves_vms_is_checked_too(tmp_path: Path, images_dir: Path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "debian@12").symlink_to(images_dir / "debian@12")
    bare = tmp_path / "images" / "bare@1"
    shutil.copytree(images_dir / "debian@12", bare, ignore=lambda *_: ["tree"])
    (bare / "tree" / "bin").mkdir(parents=True)

    def check(**sandbox: str) -> Check:
        images = ImageSettings(dir=tmp_path / "images")
        return state.default_image(tmp_path, Config(images=images, sandbox=SandboxSettings(**sandbox)))

    assert (
        check(base_image="debian:12").detail == "the image debian:12 exists, and the sshd of debian:12 serves all VMs"
    )
    missing = check(base_image="debian:13")
    assert missing.detail == "there is no image debian:13, whose sshd serves all VMs"
    assert missing.fix == f"ci-daemon --state-dir {tmp_path} image build debian:13"
    unfit = check(base_image="bare:1")
    assert "bare:1 cannot serve VMs, it lacks sshd, util-linux or perl" in unfit.detail
    assert (unfit.ok, unfit.fix) == (False, None)
    (tmp_path / "images" / "debian@12").unlink()
    assert check().fix == f"ci-daemon --state-dir {tmp_path} image build debian:12"
    commands = check(base_image="debian:13").fix
    assert commands == " && ".join(
        f"ci-daemon --state-dir {tmp_path} image build debian:{release}" for release in (13, 12)
    )


def test_free_space_is_that_of_the_future_state_directory(tmp_path: Path):
    assert f"below {tmp_path}" in state.disk_space(tmp_path / "not" / "yet").detail
