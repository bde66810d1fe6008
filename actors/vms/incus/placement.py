"""The choice of the member that a VM is made on. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.vms.incus.member import Member
    from storage import Shape

_MB = 1024
_VCPUS_OF_A_CORE = 4
"""The vCPUs per core at which a member is full; the lease pool has the same default."""


def choose(
    members: Iterable[Member], placed: Sequence[tuple[str, Shape]], shape: Shape, parent: str | None
) -> str | None:
    """Return the member for a VM of a shape; None if none takes any.

    ``placed`` has the member and shape of each VM. A VM is made where its parent's disk is; else where the largest part
    is free. The disk is copied only from a member that is full to one that is not, or from one that takes no VMs or has
    fewer processors than the VM to one that has enough: that takes seconds, and a place comes free when a job ends.
    """
    online = [member for member in members if member.takes_vms]
    taking = [member for member in online if member.cpus is None or member.cpus >= shape.cpu] or online
    on = {member.name: [each for name, each in placed if name == member.name] for member in taking}
    fit = {member.name for member in taking if _fits(member, [*on[member.name], shape])}
    if parent in on and (parent in fit or not fit):
        return parent
    free = {member.name: _free(member, on[member.name]) for member in taking}
    return max(sorted(free), key=lambda name: (name in fit, free[name]), default=None)


def _fits(member: Member, shapes: Sequence[Shape]) -> bool:
    """Tell whether a member has the memory for VMs of these shapes, and the processors."""
    vcpus, memory = sum(shape.cpu for shape in shapes), sum(shape.memory_gb for shape in shapes) * _MB
    return vcpus <= (member.cpus or 1) * _VCPUS_OF_A_CORE and (member.memory_mb is None or memory <= member.memory_mb)


def _free(member: Member, shapes: Sequence[Shape]) -> float:
    """Return the part of a member that VMs of these shapes leave; negative if they are too many.

    A member whose size is not known counts as one of a single processor.
    """
    cpu = 1 - sum(shape.cpu for shape in shapes) / (member.cpus or 1)
    if member.memory_mb is None:
        return cpu
    return min(cpu, 1 - sum(shape.memory_gb for shape in shapes) * _MB / member.memory_mb)
