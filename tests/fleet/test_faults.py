"""Faults of an engine and of its users, under VMs of the provider `incus`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.vms import Connection, VmSpec
from actors.vms.images import ImageStore
from actors.vms.incus import EngineAway, IncusProvider
from actors.vms.sandbox import IdMap, SandboxSettings
from ci_daemon.config import load
from ci_daemon.engine_setup import prepare_engine
from storage import Shape, SystemClock
from tests.fleet.fleet import POOL, Fleet
from tests.waiting import until

_SECONDS = 60.0


@pytest.fixture
def provider(tmp_path: Path, lone: Fleet, image_store: ImageStore) -> Iterator[IncusProvider]:
    """VMs on a lone member, which is prepared for them."""
    config = load(tmp_path, {})
    config = replace(config, incus=replace(config.incus, storage=POOL, socket=lone.members[0].socket))
    prepare_engine(tmp_path, config, None, SystemClock().now())
    made = IncusProvider(
        tmp_path / "vms", image_store, IdMap.of_caller(), SystemClock(), config.incus, SandboxSettings()
    )
    yield made
    made.close()


def test_a_vm_runs_on_while_its_engine_is_away(lone: Fleet, provider: IncusProvider) -> None:
    """Nothing is declared lost while nobody can tell."""
    provider.create(VmSpec("vm-1", "debian:12", None, Shape(memory_gb=1), False))
    assert _says(provider, "touch /run/mark; echo made") == "made"
    lone.members[0].kill_engine()
    with pytest.raises(EngineAway):
        provider.alive("vm-1")
    lone.members[0].start_engine()
    assert provider.alive("vm-1")
    assert _says(provider, "test -e /run/mark && echo kept") == "kept"


def test_an_instance_that_others_removed_is_a_lost_vm(lone: Fleet, provider: IncusProvider) -> None:
    provider.create(VmSpec("vm-1", "debian:12", None, Shape(memory_gb=1), False))
    lone.members[0].run("incus delete --force --project ci ci-vm-vm-1")
    until(lambda: not provider.alive("vm-1"), "the loss of the VM")
    provider.destroy("vm-1")
    assert provider.list() == []


def _says(provider: IncusProvider, script: str) -> str:
    with Connection(provider.connect("vm-1"), SystemClock(), timeout=_SECONDS) as connection:
        return connection.run(script, timeout=_SECONDS).stdout.decode().strip()
