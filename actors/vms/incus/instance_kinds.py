"""The kinds of instances that VMs can be: containers, or machines with a kernel of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.description import Enforcement, ProviderDescription
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.settings import InstanceType
    from storage import Shape

DISK_DEVICE = "disk"
"""The device that is the disk of a job."""

_MACHINE_DRIVER = "qemu"
_MACHINE_SERVER = "incus"

_CONTAINER_MB = 256
"""The memory that a container has beyond its job's: for the outer layer, and the files that it reads."""

_MACHINE_MB = 384
"""The same for a machine, whose kernel takes some too."""

_DISK = Enforcement("disk", enforced=True, how="measured while a job runs; no file grows past the disk's size")


@immutable
class InstanceKind:
    """A kind of instances: the engine's word for it, the settings of all, and what its VMs are like."""

    type: InstanceType
    always: Mapping[str, str]
    disk: Mapping[str, str]
    """Settings of the device that is a job's disk."""

    share: str | None
    """The name by which an instance mounts the disk itself."""

    description: ProviderDescription

    @property
    def is_machine(self) -> bool:
        """True if an instance has a kernel of its own, and so keeps the shape that it is made with."""
        return self.description.own_kernel

    def limits(self, shape: Shape | None) -> dict[str, str]:
        """Return the settings for a job's shape; None for an instance that waits for a job."""
        if self.is_machine:
            shape = _required(shape)
            return {"limits.cpu": str(shape.cpu), "limits.memory": f"{shape.memory_gb * 1024 + _MACHINE_MB}MiB"}
        cpus, memory_gb = (1, 0) if shape is None else (shape.cpu, shape.memory_gb)
        return {
            "limits.cpu.allowance": f"{cpus * 100}ms/100ms",
            "limits.memory": f"{memory_gb * 1024 + _CONTAINER_MB}MiB",
        }


def makes_machines(environment: Mapping[str, str]) -> bool:
    """Tell whether a member makes machines, by the ``environment`` that it reports.

    One without KVM lacks the driver. LXD has it, but another agent than the one that the launcher starts.
    """
    return environment["server"] == _MACHINE_SERVER and _MACHINE_DRIVER in environment.get("driver", "")


def _required(shape: Shape | None) -> Shape:
    if shape is None:
        message = "a machine is made for a job alone"
        raise ValueError(message)
    return shape


CONTAINERS = InstanceKind(
    "container",
    {
        "security.idmap.isolated": "true",  # the kernel counts descriptors in flight by the user id on the host
        "security.nesting": "true",  # init mounts file systems in namespaces of its own
    },
    {},
    None,
    ProviderDescription(
        parks=True,
        own_kernel=False,
        reserves=False,
        limits=(
            *(Enforcement(each, enforced=True, how="control groups of the engine") for each in ("cpu", "memory")),
            Enforcement("pids", enforced=True, how="limits of the user namespace in an instance"),
            _DISK,
        ),
    ),
)
MACHINES = InstanceKind(
    "virtual-machine",
    {"security.secureboot": "false"},  # the kernel and its first root are not signed
    {"io.cache": "unsafe"},  # no other instance has the disk, and without a cache no program can map a file to share it
    f"incus_{DISK_DEVICE}",
    ProviderDescription(
        parks=False,
        own_kernel=True,
        reserves=False,
        limits=(
            *(Enforcement(each, enforced=True, how="the engine gives a machine no more") for each in ("cpu", "memory")),
            Enforcement("pids", enforced=False, how="too many processes fill the job's own machine alone"),
            _DISK,
        ),
    ),
)
KINDS = {kind.type: kind for kind in (CONTAINERS, MACHINES)}
