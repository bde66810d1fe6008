"""Descriptions of providers: the differences between their VMs, which are the same in all else."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Enforcement", "ProviderDescription"]


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The enforcement of one part of VMs' shapes; ``how`` is a phrase for the operator.

    ``resource`` is "cpu", "memory", "pids" or "disk".
    """

    resource: str
    enforced: bool
    how: str


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """The VMs of a provider on this host, as far as those of another may differ.

    ``parks``: VMs can wait without a disk. If not, `park` does nothing and `attach` makes the whole VM. ``own_kernel``:
    each VM has a kernel of its own; if not, all share the host's. ``limits``: the enforcement of each part of a shape.
    """

    parks: bool
    own_kernel: bool
    limits: tuple[Enforcement, ...]

    def enforces(self, resource: str) -> bool:
        """Tell whether no VM gets more of a resource than its shape says."""
        return any(each.enforced for each in self.limits if each.resource == resource)
