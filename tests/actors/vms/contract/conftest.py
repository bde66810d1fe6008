"""VMs of every provider, for the tests of their contract: sandboxes, and VMs in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms import Connection, ImageStore, Provider, SandboxProvider, VmSpec, in_job
from actors.vms.sandbox import IdMap, run_mapped
from storage import SystemClock
from tests.actors.vms.conftest import IMAGE
from tests.memory.provider import MemoryProvider, World

TIMEOUT = 20.0


@pytest.fixture(params=["sandbox", "memory"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, image_store: ImageStore, idmap: IdMap
) -> Iterator[Callable[[], Provider]]:
    """Open a provider on this test's host, as each process does. At the end no VM is left."""
    if request.param == "memory":
        world = World()
        yield lambda: MemoryProvider(image_store, world)
        return
    providers: list[Provider] = []

    def sandboxes() -> Provider:
        providers.append(SandboxProvider(tmp_path / "sandbox", image_store, idmap, SystemClock()))
        return providers[-1]

    yield sandboxes
    for each in sandboxes().list():
        providers[-1].destroy(each)
    for provider in providers:
        provider.close()
    run_mapped(["rm", "-rf", "sandbox"], idmap=idmap.with_caller(), cwd=tmp_path)


@pytest.fixture
def provider(opened: Callable[[], Provider]) -> Provider:
    return opened()


class Vm:
    """A VM under test; each call makes a connection, unless one is given."""

    def __init__(self, provider: Provider, vm_id: str) -> None:
        self.provider = provider
        self.id = vm_id

    def connect(self) -> Connection:
        return Connection(self.provider.connect(self.id), SystemClock())

    def run(self, script: str, stdin: bytes = b"") -> tuple[int, bytes]:
        """Run a script on the job's disk; return its exit code and output."""
        with self.connect() as connection:
            done = connection.run(in_job(script), stdin=stdin, timeout=TIMEOUT)
        return done.exit_code, done.stdout

    def snapshot(self, name: str) -> str:
        """Snapshot the disk and destroy the VM."""
        self.provider.snapshot(self.id, name)
        self.provider.destroy(self.id)
        return name


Boot = Callable[..., Vm]


@pytest.fixture
def boot(provider: Provider) -> Boot:
    numbers = itertools.count(1)

    def make(snapshot: str | None = None) -> Vm:
        vm = Vm(provider, f"vm-{next(numbers)}")
        provider.create(VmSpec(vm.id, IMAGE, snapshot, network=False))
        return vm

    return make


@pytest.fixture
def connection(boot: Boot) -> Iterator[Connection]:
    with boot().connect() as connection:
        yield connection
