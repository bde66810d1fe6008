"""The choice of the member that a VM is made on. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.vms.incus.member import Member
    from storage import Shape

__all__ = ["choose"]

_MB = 1024


def choose(members: Iterable[Member], placed: Sequence[tuple[str, Shape]], parent: str | None) -> str | None:
    """Return the member for a VM; None if none takes any.

    ``placed`` has the member and shape of each VM. A VM is made where its parent's disk is, because all of it would
    have to be copied to another member; else where the largest part is free.
    """
    taking = [member for member in members if member.takes_vms]
    free = {member.name: _free(member, [each for name, each in placed if name == member.name]) for member in taking}
    if parent in free:
        return parent
    return max(sorted(free), key=lambda name: free[name], default=None)


def _free(member: Member, shapes: Sequence[Shape]) -> float:
    """Return the part of a member that VMs of these shapes leave; negative if they are too many.

    A member whose size is not known counts as one of a single processor.
    """
    cpu = 1 - sum(shape.cpu for shape in shapes) / (member.cpus or 1)
    if member.memory_mb is None:
        return cpu
    return min(cpu, 1 - sum(shape.memory_gb for shape in shapes) * _MB / member.memory_mb)
