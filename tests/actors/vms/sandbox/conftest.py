"""Sandboxes for one test, and a check afterwards that nothing of them is left on the host."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.vms import (
    CommandSpec,
    Completed,
    Connection,
    ImageStore,
    SandboxProvider,
    SandboxSettings,
    VmSpec,
    follow,
    in_job,
    start,
)
from actors.vms.host import IdMap, VmLimits, run_mapped
from actors.vms.host.vm_folder import VmFolder
from actors.vms.sandbox.disks import MAX_LAYERS
from storage import Shape, SystemClock

IMAGE = "debian:12"


@dataclass
class Host:
    """A folder with VMs and the providers opened on it; opening another one is like a restart."""

    folder: Path
    images: ImageStore
    idmap: IdMap
    names: set[str] = field(default_factory=set)
    opened: list[SandboxProvider] = field(default_factory=list)

    def provider(self, settings: SandboxSettings | None = None, max_layers: int = MAX_LAYERS) -> SandboxProvider:
        settings = settings or SandboxSettings()
        self.opened.append(
            SandboxProvider(self.folder, self.images, self.idmap, SystemClock(), settings, max_layers=max_layers)
        )
        return self.opened[-1]

    def name(self) -> str:
        """Return a unique name for a VM or a snapshot."""
        name = str(uuid.uuid4())
        self.names.add(name)
        return name

    def vm_folder(self, name: str) -> VmFolder:
        """Return the folder of a VM."""
        return VmFolder(self.folder / "vms" / name)

    def processes(self) -> list[int]:
        """Return the VMs' monitors, recognized by their mounts, and all of their descendants."""
        parents = {int(path.name): _parent(path) for path in Path("/proc").glob("[0-9]*")}
        found = [pid for pid in parents if pid != os.getpid() and str(self.folder) in _mountinfo(pid)]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid and child not in found]
        return found

    def groups(self) -> list[Path]:
        places = [hierarchy.parent for hierarchy in VmLimits.of_host(1).hierarchies]
        return [path for place in places for path in place.glob("ci-daemon-*") if path.name[-36:] in self.names]

    def mounts(self) -> list[str]:
        return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(self.folder) in line]


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _mountinfo(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        return ""


def open_descriptors() -> set[str]:
    """Return the targets of this process's open descriptors; those of earlier tests may still close."""
    return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}


@pytest.fixture
def host(tmp_path: Path, image_store: ImageStore, idmap: IdMap) -> Iterator[Host]:
    """A folder for VMs; destroying the VMs that `list` names must free the host of everything."""
    open_files = open_descriptors()
    host = Host(tmp_path / "sandbox", image_store, idmap)
    try:
        yield host
    finally:
        try:
            provider = host.provider()
            for vm in provider.list():
                provider.destroy(vm)
            for opened in host.opened:
                opened.close()
            places = [host.folder / "trees" / place for place in ("disks", "trash/disks")]
            remaining = [path for place in places for path in place.iterdir()]
        finally:
            # Trees of some tests are too deep for pytest to remove.
            run_mapped(["rm", "-rf", host.folder.name], idmap=idmap.with_caller(), cwd=tmp_path)
    assert remaining == []
    assert host.processes() == []
    assert host.groups() == []
    assert host.mounts() == []
    assert open_descriptors() <= open_files


@dataclass
class Guest:
    """A VM under test, and a connection to it."""

    provider: SandboxProvider
    folder: VmFolder
    connection: Connection

    @property
    def id(self) -> str:
        return self.folder.id

    def run(self, script: str, stdin: bytes = b"", timeout: float = 60.0) -> Completed:
        """Run a script in the job's namespaces."""
        return self.connection.run(in_job(script), stdin=stdin, timeout=timeout)

    def outside(self, script: str) -> str:
        """Run a script that must succeed in the service's own part of the VM; return its output."""
        done = self.connection.run(script, timeout=60.0)
        assert done.exit_code == 0, done
        return done.stdout.decode().strip()

    def says(self, script: str) -> str:
        """Run a script that must succeed in the job's namespaces; return its output."""
        done = self.run(script)
        assert done.exit_code == 0, done
        return done.stdout.decode().strip()

    def command(self, command: str, **spec: Any) -> str:
        """Run the VM's command, which must succeed; return its output."""
        start(self.connection, CommandSpec(command, env={"PATH": os.defpath}, **spec))
        following = follow(self.connection)
        output = b"".join(following).decode()
        assert following.exited is not None
        assert following.exited.exit_code == 0, output
        return output.strip()

    def python(self, program: str) -> str:
        done = self.run("python3 -", stdin=program.encode())
        assert done.exit_code == 0, done
        return done.stdout.decode().strip()


Boot = Callable[..., Guest]


@pytest.fixture
def boot(host: Host) -> Iterator[Boot]:
    """Make VMs and connect to them: ``boot(snapshot=…, network=…, shape=…, provider=…)``."""
    connections = []

    def make(
        *,
        snapshot: str | None = None,
        network: bool = False,
        shape: Shape | None = None,
        provider: SandboxProvider | None = None,
    ) -> Guest:
        provider = provider or host.provider()
        spec = VmSpec(host.name(), IMAGE, snapshot, shape or Shape(memory_gb=1), network)
        provider.create(spec)
        connections.append(Connection(provider.connect(spec.id), SystemClock()))
        return Guest(provider, host.vm_folder(spec.id), connections[-1])

    yield make
    for connection in connections:
        connection.close()
