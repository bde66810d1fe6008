"""The provider that the configuration names, and VMs that another one has left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_daemon.config import Config, load
from ci_daemon.providers import has_vms, open_images, open_provider, remove_vms_of_others
from storage import SystemClock


@pytest.mark.parametrize("name", ["sandbox", "qemu"])
def test_the_configured_provider_is_opened(tmp_path: Path, name: str):
    config = load(tmp_path, {"CI_DAEMON_POOL_PROVIDER": name}, system_file=tmp_path / "none.toml")
    provider = open_provider(tmp_path, config, open_images(tmp_path, config), SystemClock())
    assert provider.name == name
    assert provider.description.own_kernel is (name == "qemu")
    provider.close()


def test_vms_of_another_provider_are_destroyed(tmp_path: Path):
    config = Config()
    for name in ("sandbox", "qemu"):
        (tmp_path / name / "vms" / "left").mkdir(parents=True)
    remove_vms_of_others(tmp_path, config, open_images(tmp_path, config), SystemClock())
    assert list((tmp_path / "qemu" / "vms").iterdir()) == []
    assert (tmp_path / "sandbox" / "vms" / "left").exists()
    assert has_vms(tmp_path)
    other = replace(config, pool=replace(config.pool, provider="qemu"))
    remove_vms_of_others(tmp_path, other, open_images(tmp_path, other), SystemClock())
    assert not has_vms(tmp_path)
