"""The part of `ci-daemon doctor` for hosts on which machines are to run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from actors.vms import QemuSettings
from ci_daemon.config import Config
from ci_daemon.doctor import fix_commands
from ci_daemon.doctor.providers import machines
from storage import Storage, SystemClock


def test_nothing_is_said_of_machines_where_there_are_none(tmp_path: Path):
    assert list(machines(tmp_path, Config())) == []


def for_images(config: Config) -> Config:
    return replace(config, pool=replace(config.pool, image_providers={"debian:12": "qemu"}))


def for_forks(config: Config) -> Config:
    return replace(config, repositories=replace(config.repositories, fork_provider="qemu"))


@pytest.mark.parametrize("choose", [for_images, for_forks])
def test_machines_of_some_images_or_forks_are_checked(
    choose: Callable[[Config], Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    config = replace(Config(), qemu=QemuSettings(system=tmp_path))
    assert "qemu" in [check.name for check in machines(tmp_path, choose(config)) if not check.ok]


def test_machines_of_an_organization_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    config = replace(Config(), qemu=QemuSettings(system=tmp_path))
    with closing(Storage.create(tmp_path, SystemClock())) as storage:
        owner = storage.users.create("owner@example.com", "Owner")
        organization = storage.organizations.create("acme", "", owner.id)
        assert list(machines(tmp_path, config)) == []
        storage.organizations.configure(organization.id, provider="qemu")
    assert "qemu" in [check.name for check in machines(tmp_path, config) if not check.ok]


def test_it_names_all_that_machines_lack_and_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    config = Config()
    config = replace(config, pool=replace(config.pool, provider="qemu"), qemu=QemuSettings(system=tmp_path))
    found = list(machines(tmp_path, config))
    assert [check.name for check in found if not check.ok] == [
        "qemu-img", "mke2fs", "machines' image", "qemu", "kernel", "busybox",
    ]  # fmt: skip
    assert [check.name for check in found if not check.needed] == ["machines' image"]
    (command,) = fix_commands(found)
    packages = {"qemu-utils", "e2fsprogs", "qemu-system-x86", "linux-image-cloud-amd64", "busybox-static"}
    assert packages <= set(command.split())
