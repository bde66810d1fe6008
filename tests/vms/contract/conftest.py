"""VMs of every provider, for the cases of the contract.

A case runs on each type of `Host`. It is marked `real` if VMs in memory cannot pass it, because it runs programs of the
image or is about processes of the host; `limited` by a part of the shape if it is about a limit that the provider may
say it lacks; `reserved` if it is about the share of a VM that its job cannot take, and `parks` if it is about VMs that
wait for a job, which the provider may say it lacks, too; `shared_kernel` if it is about what a job may use of the
host's kernel, as it may use all of a machine's; and `essential` if slow providers, too, run it in `make test`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import cast

import pytest

from actors.vms import Completed, Connection, ImageStore, Provider, VmSpec, in_job
from storage import Shape, SystemClock
from tests.actors.vms.commands import TIMEOUT
from tests.fleet.standing import StandingFleets
from tests.vms.contract.hosts import HOSTS, IMAGE, Cases, Host

_SLOW_SECONDS = 1800


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "host_type" in metafunc.fixturenames:
        hosts = [host for host in HOSTS if _runs(metafunc.definition, host)]
        metafunc.parametrize("host_type", hosts, ids=attrgetter("name"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases that no host runs or can pass; start with slow hosts, and give them time."""
    lacking = set()
    for case in items:
        if isinstance(case, pytest.Function) and "host_type" in case.fixturenames:
            host = cast("type[Host]", case.callspec.params["host_type"])
            if host not in HOSTS:
                lacking.add(case)
                continue
            limited = case.get_closest_marker("limited")
            if limited is not None and not host.enforces(*limited.args):
                lacking.add(case)
            if case.get_closest_marker("reserved") is not None and not host.reserves():
                lacking.add(case)
            if case.get_closest_marker("parks") is not None and not host.parks():
                lacking.add(case)
            if host.slow:
                case.add_marker(pytest.mark.timeout(_SLOW_SECONDS))
                case.add_marker(pytest.mark.long)
    config.hook.pytest_deselected(items=list(lacking))
    items[:] = [case for case in items if case not in lacking]


def _runs(case: pytest.Item, host: type[Host]) -> bool:
    if case.get_closest_marker("real") is not None and not host.real:
        return False
    if case.get_closest_marker("shared_kernel" if host.own_kernel else "own_kernel") is not None:
        return False
    if host.needs_root and os.geteuid() != 0:
        return False
    if host.cases is Cases.ALL or _asks("FULL_CONTRACT", host):
        return True
    essential = host.cases is Cases.ESSENTIAL or _asks("ESSENTIAL_CONTRACT", host)
    return essential and case.get_closest_marker("essential") is not None


def _asks(variable: str, host: type[Host]) -> bool:
    return host.name in os.environ.get(variable, "").split(",")


@pytest.fixture(scope="session")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingFleets]:
    """Members of engines, of which those start that a case needs."""
    with StandingFleets(tmp_path_factory.mktemp("fleets")) as standing:
        yield standing


@pytest.fixture
def host(
    host_type: type[Host], tmp_path: Path, images_dir: Path, image_store: ImageStore, fleets: StandingFleets
) -> Iterator[Host]:
    """A host for VMs; at the end of the test none is left."""
    folder = tmp_path / "vms"
    with host_type.reached(folder, fleets):
        host = host_type(folder, images_dir)
        yield host
        host.close()


@pytest.fixture
def provider(host: Host) -> Provider:
    return host.open()


def park(provider: Provider, vm_id: str) -> None:
    """Park a VM as if a job waited for it, so that it takes no longer on a busy host."""
    provider.weigh(vm_id, 100)
    provider.park(vm_id)


class Vm:
    """A VM under test; each call makes a connection."""

    def __init__(self, provider: Provider, vm_id: str) -> None:
        self.provider = provider
        self.id = vm_id

    def connect(self) -> Connection:
        return Connection(self.provider.connect(self.id), SystemClock(), timeout=TIMEOUT)

    def complete(self, script: str, stdin: bytes = b"") -> Completed:
        """Run a script on the job's disk, whatever its exit code."""
        with self.connect() as connection:
            return connection.run(in_job(script), stdin=stdin, timeout=TIMEOUT)

    def run(self, script: str, stdin: bytes = b"") -> tuple[int, bytes]:
        """Run a script on the job's disk; return its exit code and output."""
        done = self.complete(script, stdin)
        return done.exit_code, done.stdout

    def says(self, script: str, stdin: bytes = b"") -> str:
        """Run a script that must succeed; return its output."""
        done = self.complete(script, stdin)
        assert done.exit_code == 0, done
        return done.stdout.decode().strip()

    def python(self, program: str) -> str:
        """Run a Python program that must succeed; return its output."""
        return self.says("python3 -", program.encode())

    def snapshot(self, name: str) -> str:
        """Snapshot the disk and destroy the VM."""
        self.provider.snapshot(self.id, name)
        self.provider.destroy(self.id)
        return name


Boot = Callable[..., Vm]


@pytest.fixture
def boot(provider: Provider) -> Boot:
    """Make VMs: ``boot(snapshot, shape=…, network=…, containers=…)``."""
    numbers = itertools.count(1)

    def make(
        snapshot: str | None = None, *, shape: Shape | None = None, network: bool = False, containers: bool = False
    ) -> Vm:
        vm = Vm(provider, f"vm-{next(numbers)}")
        provider.create(VmSpec(vm.id, IMAGE, snapshot, shape or Shape(memory_gb=1), network, containers=containers))
        return vm

    return make


@pytest.fixture
def connection(boot: Boot) -> Iterator[Connection]:
    with boot().connect() as connection:
        yield connection
