"""Real VMs for tests of work inside them: sandboxes made from the default image."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from actors.vms import Connection, ImageStore, SandboxProvider, SshEndpoint, VmSpec
from actors.vms.host import IdMap, run_mapped
from actors.vms.launcher import broker
from actors.vms.launcher.broker import BROKER_VARIABLE
from storage import SystemClock
from tests.processes import ended
from tests.waiting import until

IMAGE = "debian:12"


@dataclass(frozen=True)
class Vm:
    """A VM under test."""

    provider: SandboxProvider
    id: str

    def endpoint(self) -> SshEndpoint:
        return self.provider.connect(self.id)

    def connect(self) -> Connection:
        return Connection(self.endpoint(), SystemClock())


@pytest.fixture(scope="session")
def sandboxes(
    image_store: ImageStore, idmap: IdMap, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SandboxProvider]:
    folder = tmp_path_factory.mktemp("sandboxes")
    provider = SandboxProvider(folder / "state", image_store, idmap, SystemClock())
    yield provider
    for name in provider.list():
        provider.destroy(name)
    run_mapped(["rm", "-rf", "state"], idmap=idmap.with_caller(), cwd=folder)


@pytest.fixture
def make_vm(sandboxes: SandboxProvider) -> Iterator[Callable[[], Vm]]:
    """Make VMs, which are destroyed after the test."""
    numbers = itertools.count(1)
    made: list[str] = []

    def make() -> Vm:
        made.append(f"vm-{next(numbers)}")
        sandboxes.create(VmSpec(made[-1], IMAGE, network=False))
        return Vm(sandboxes, made[-1])

    yield make
    for name in made:
        sandboxes.destroy(name)


@pytest.fixture
def vm(make_vm: Callable[[], Vm]) -> Vm:
    return make_vm()


@pytest.fixture
def connection(vm: Vm) -> Iterator[Connection]:
    with vm.connect() as connection:
        yield connection


@pytest.fixture
def broker_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of a broker that runs the programs of VMs, as if this process could gain no privileges."""
    address = str(tmp_path / "broker")
    own_mounts = ["unshare", "--mount"] if os.geteuid() == 0 else []  # as systemd gives to each of the two units
    with ended(subprocess.Popen([*own_mounts, sys.executable, "-I", "-S", broker.__file__, address])):
        until(lambda: Path(address).exists(), "the broker's socket")
        monkeypatch.setenv(BROKER_VARIABLE, address)
        yield address
