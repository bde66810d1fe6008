"""The providers of a state directory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from actors.vms import VmError
from ci_daemon.config import Config
from ci_daemon.providers import VMS, has_vms, open_images, open_providers
from storage import SystemClock


def test_providers_are_opened_that_are_needed_or_have_vms(tmp_path: Path):
    config, images = Config(), open_images(tmp_path, Config())
    with closing(open_providers(tmp_path, config, images, SystemClock())) as providers:
        assert list(providers) == []
        assert providers.named("qemu").description.own_kernel
        assert [each.name for each in providers] == ["qemu"]
        assert not (tmp_path / "sandbox").exists()
    (tmp_path / "sandbox" / "vms" / "left").mkdir(parents=True)
    assert has_vms(tmp_path)
    with closing(open_providers(tmp_path, config, images, SystemClock())) as providers:
        assert {each.name: list(each.list()) for each in providers} == {"sandbox": ["left"], "qemu": []}


def test_every_provider_has_its_name(tmp_path: Path):
    images = open_images(tmp_path, Config())
    with closing(open_providers(tmp_path, Config(), images, SystemClock())) as providers:
        assert [providers.named(name).name for name in VMS] == list(VMS)
        with pytest.raises(VmError, match='no provider "lxd" of VMs, only sandbox, qemu, incus'):
            providers.named("lxd")
