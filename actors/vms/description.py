"""Descriptions of providers: the differences between their VMs, which are the same in all else."""

from __future__ import annotations

import os
from functools import cache

from storage import immutable


@immutable
class Enforcement:
    """The enforcement of one part of VMs' shapes; ``how`` is a phrase for the operator.

    ``resource`` is "cpu", "memory", "pids" or "disk".
    """

    resource: str
    enforced: bool
    how: str


@immutable
class HostSize:
    """The processors and memory of the hosts that VMs are on, all together."""

    cpus: int
    memory_gb: int

    @classmethod
    @cache  # to count the cores opens a file, and each change of the queue asks
    def here(cls) -> HostSize:
        """Return the size of this host, as it was when first asked."""
        memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
        return cls(os.cpu_count() or 1, max(1, memory_gb))


@immutable
class ProviderDescription:
    """The properties in which the VMs of a provider on this host differ from those of others.

    ``parks``: VMs can wait without a disk. If not, `park` does nothing and `attach` makes the whole VM. ``own_kernel``:
    each VM has a kernel of its own; if not, all share the host's. ``reserves``: what serves a VM has a share of it that
    the job cannot take; if not, a VM whose job takes all of its memory may refuse new connections until the job ends.
    ``limits``: the enforcement of each part of a shape.
    """

    parks: bool
    own_kernel: bool
    reserves: bool
    limits: tuple[Enforcement, ...]

    def enforces(self, resource: str) -> bool:
        """Tell whether no VM gets more of a resource than its shape says."""
        return any(each.enforced for each in self.limits if each.resource == resource)
