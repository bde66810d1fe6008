"""Hosts on which the contract is checked, one type for each provider.

Another provider joins by a type here and its place in `HOSTS`. Cases are the same for all; `conftest.py` tells which of
them a host may leave out.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import ClassVar

from actors.vms import (
    Enforcement,
    ImageStore,
    NetworkSettings,
    Provider,
    QemuProvider,
    QemuSettings,
    SandboxProvider,
    SandboxSettings,
)
from actors.vms.host import IdMap, SnapshotInUse, VmLimits, run_mapped
from actors.vms.host.vm_folder import VmFolder
from actors.vms.incus import IncusProvider
from actors.vms.incus.instances import CONTAINERS, MACHINES, InstanceKind
from storage import SystemClock
from tests.fleet.engine import INCUS, LXD, Engine
from tests.fleet.own_members import OwnMembers
from tests.fleet.prepared import PreparedFleet
from tests.fleet.standing import StandingFleets
from tests.machines import share_image_disks, unpacked_kernel, unpacked_member_kernel
from tests.memory.provider import MemoryProvider, World

IMAGE = "debian:12"
_SLOW_SECONDS = 1200.0
PROCESSES = 300
"""The most processes in a VM, where it has a limit: few, so that a fork bomb is soon over."""


class Cases(Enum):
    """The cases that a host runs if nobody asks for more."""

    ALL = "all"
    ESSENTIAL = "those marked `essential`"
    NONE = "none"


class Host(ABC):
    """A folder with the VMs of one provider; to open the provider again is like a restart of the daemon."""

    name: ClassVar[str]
    real: ClassVar[bool] = True
    """False if VMs are objects of this process, for which cases marked `real` are left out."""

    cases: ClassVar[Cases] = Cases.ALL
    """FULL_CONTRACT adds all cases of the hosts that it names, and ESSENTIAL_CONTRACT the essential ones."""

    needs_root: ClassVar[bool] = False
    """True if only root can make such a host, so that others run none of its cases."""

    own_kernel: ClassVar[bool] = False
    """True if VMs are machines, which share no kernel with the host."""

    slow: ClassVar[bool] = False
    """True if a case may take half an hour."""

    def __init__(self, folder: Path, images_dir: Path) -> None:
        self.folder = folder
        self.images_dir = images_dir
        self._images = ImageStore(images_dir, IdMap.of_caller())
        self._opened: list[Provider] = []

    @classmethod
    @contextmanager
    def reached(cls, folder: Path, fleets: StandingFleets) -> Iterator[None]:
        """Prepare a folder for a host, which is used inside of the context."""
        del folder, fleets
        yield

    def open(self, *, allow: tuple[str, ...] = ()) -> Provider:
        """Open the provider; its VMs may reach the networks ``allow``, besides the public ones."""
        self._opened.append(self._open(allow))
        return self._opened[-1]

    @abstractmethod
    def _open(self, allow: tuple[str, ...]) -> Provider: ...

    @classmethod
    @abstractmethod
    def limits(cls) -> Sequence[Enforcement]:
        """Return the limits of VMs, as their provider describes them."""

    @classmethod
    def enforces(cls, resource: str) -> bool:
        """Tell whether no VM gets more of a resource than its shape says."""
        return any(each.enforced for each in cls.limits() if each.resource == resource)

    @classmethod
    def reserves(cls) -> bool:
        """Tell whether what serves a VM has a share that its job cannot take, as the provider describes it."""
        return True

    @classmethod
    def parks(cls) -> bool:
        """Tell whether VMs can wait for a job, as the provider describes it."""
        return True

    @abstractmethod
    def crash(self, vm_id: str) -> None:
        """Kill the VM from outside, as a fault of the host would; return at once."""

    def close(self) -> None:
        """Destroy all VMs, close all providers and remove the folder."""
        provider = self.open()
        for vm_id in provider.list():
            provider.destroy(vm_id)
        for opened in self._opened:
            opened.close()
        self._remove_folder()

    @abstractmethod
    def _remove_folder(self) -> None: ...


class SandboxHost(Host):
    name = "sandbox"

    def _open(self, allow: tuple[str, ...]) -> SandboxProvider:
        settings = SandboxSettings(processes=PROCESSES, network=NetworkSettings(allow=allow))
        return SandboxProvider(self.folder, self._images, IdMap.of_caller(), SystemClock(), settings)

    @classmethod
    def limits(cls) -> Sequence[Enforcement]:
        return VmLimits.of_host(PROCESSES).describe()

    def crash(self, vm_id: str) -> None:
        os.kill(VmFolder(self.folder / "vms" / vm_id).monitor(), signal.SIGKILL)

    def _remove_folder(self) -> None:
        run_mapped(["rm", "-rf", self.folder.name], idmap=IdMap.of_caller().with_caller(), cwd=self.folder.parent)


class QemuHost(Host):
    name = "qemu"
    cases = Cases.ESSENTIAL
    own_kernel = True
    slow = True

    def __init__(self, folder: Path, images_dir: Path) -> None:
        super().__init__(folder, images_dir)
        share_image_disks(folder)

    def _open(self, allow: tuple[str, ...]) -> QemuProvider:
        shared = SandboxSettings(
            create_seconds=_SLOW_SECONDS, processes=PROCESSES, network=NetworkSettings(allow=allow)
        )
        settings = QemuSettings(system=unpacked_kernel())
        return QemuProvider(self.folder, self._images, IdMap.of_caller(), SystemClock(), settings, shared)

    @classmethod
    def limits(cls) -> Sequence[Enforcement]:
        return QemuProvider.description.limits

    def crash(self, vm_id: str) -> None:
        os.kill(VmFolder(self.folder / "vms" / vm_id).monitor(), signal.SIGKILL)

    def _remove_folder(self) -> None:
        shutil.rmtree(self.folder)


class IncusHost(Host):
    """VMs on a member alone, which is reached by its socket, and from the network of its switch."""

    name = "incus"
    cases = Cases.ESSENTIAL
    needs_root = True
    engine: ClassVar[Engine] = INCUS
    over_tls: ClassVar[bool] = False
    kind: ClassVar[InstanceKind] = CONTAINERS
    fleet_type: ClassVar[type[PreparedFleet]] = PreparedFleet
    system: ClassVar[Callable[[], Path]] = lambda: Path("/")

    def __init__(self, folder: Path, images_dir: Path) -> None:
        super().__init__(folder, images_dir)
        self._fleet = self.fleet_type(folder)

    @classmethod
    @contextmanager
    def reached(cls, folder: Path, fleets: StandingFleets) -> Iterator[None]:
        fleet = fleets.of(cls.engine)
        with fleet.switch.entered():
            fleets.prepared(cls.engine, over_tls=cls.over_tls).configure(folder)
            logged = len(fleet.members[0].log())
            yield
            sys.stdout.write(fleet.members[0].log()[logged:])  # pytest shows it if the test fails

    def _open(self, allow: tuple[str, ...]) -> IncusProvider:
        self._fleet.allow(allow)
        shared = SandboxSettings(network=NetworkSettings(allow=allow))
        settings = replace(self._fleet.config.incus, processes=PROCESSES)
        ids, clock = IdMap.of_caller(), SystemClock()
        return IncusProvider(self.folder, self._images, ids, clock, settings, shared, system=type(self).system())

    @classmethod
    def limits(cls) -> Sequence[Enforcement]:
        return cls.kind.description.limits

    @classmethod
    def reserves(cls) -> bool:
        return cls.kind.description.reserves

    @classmethod
    def parks(cls) -> bool:
        return cls.kind.description.parks

    def crash(self, vm_id: str) -> None:
        self._fleet.kill_instance(f"{self._fleet.config.incus.prefix}-vm-{vm_id}")

    def close(self) -> None:
        """Remove all snapshots, too: other tests use the same member."""
        provider = self.open()
        for vm_id in provider.list():
            provider.destroy(vm_id)
        while left := list(provider.snapshots()):
            for name in left:
                with suppress(SnapshotInUse):
                    provider.remove_snapshot(name)
        super().close()

    def _remove_folder(self) -> None:
        shutil.rmtree(self.folder)


class IncusOverTlsHost(IncusHost):
    name = "incus-tls"
    cases = Cases.NONE
    over_tls = True


class LxdHost(IncusHost):
    name = "lxd"
    cases = Cases.NONE
    engine = LXD


class IncusMachinesHost(IncusHost):
    """Machines on members of one's own, which have KVM. See `OwnMembers`."""

    name = "incus-machines"
    cases = Cases.NONE
    own_kernel = True
    needs_root = False
    slow = True
    kind = MACHINES
    fleet_type = OwnMembers
    system = unpacked_member_kernel

    @classmethod
    @contextmanager
    def reached(cls, folder: Path, fleets: StandingFleets) -> Iterator[None]:
        fleets.own().configure(folder)
        yield


class MemoryHost(Host):
    name = "memory"
    real = False

    def __init__(self, folder: Path, images_dir: Path) -> None:
        super().__init__(folder, images_dir)
        self._world = World()

    def _open(self, _: tuple[str, ...]) -> MemoryProvider:
        return MemoryProvider(self._images, self._world)

    @classmethod
    def limits(cls) -> Sequence[Enforcement]:
        return ()

    def crash(self, vm_id: str) -> None:
        self._open(()).crash(vm_id)

    def _remove_folder(self) -> None:
        pass


HOSTS: tuple[type[Host], ...] = (
    SandboxHost,
    QemuHost,
    IncusHost,
    IncusOverTlsHost,
    LxdHost,
    IncusMachinesHost,
    MemoryHost,
)


def processes_in(folder: Path) -> list[int]:
    """Return the other processes that have to do with a folder: by a mount, an open file or an argument."""
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if int(process.name) != os.getpid() and _names(process, str(folder))
    ]


def _names(process: Path, folder: str) -> bool:
    try:
        texts = [(process / "mountinfo").read_text(), (process / "cmdline").read_bytes().decode(errors="replace")]
        texts += [str(link.readlink()) for link in (process / "fd").iterdir()]
    except OSError:  # it has ended
        return False
    return any(folder in text for text in texts)
