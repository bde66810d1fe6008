"""The part of `ci-daemon doctor` for hosts on which machines are to run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.vms import QemuSettings
from ci_daemon.config import Config
from ci_daemon.doctor import fix_commands
from ci_daemon.doctor.machines import machines


def test_nothing_is_said_of_machines_where_there_are_none(tmp_path: Path):
    assert list(machines(tmp_path, Config())) == []


def test_it_names_all_that_machines_lack_and_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    config = Config()
    config = replace(config, pool=replace(config.pool, provider="qemu"), qemu=QemuSettings(system=tmp_path))
    found = list(machines(tmp_path, config))
    assert [check.name for check in found if not check.ok] == [
        "qemu-img", "mke2fs", "machines' image", "qemu", "kernel", "busybox",
    ]  # fmt: skip
    (command,) = fix_commands(found)
    packages = {"qemu-utils", "e2fsprogs", "qemu-system-x86", "linux-image-cloud-amd64", "busybox-static"}
    assert packages <= set(command.split())
