"""The configuration sections of the live service, with their defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

__all__ = ["JobSettings", "PoolSettings"]


def _host_memory_gb() -> int:
    return max(1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Section ``[pool]``: how many VMs the host carries. 0 stands for what the host itself suggests.

    By default a host runs two VMs a core, promises each core four times over, and its memory once.
    """

    max_vms: int = 0
    max_cpu: int = 0
    max_memory_gb: int = 0
    max_disk_gb: int = 0
    max_vms_per_organization: int = 0
    warm: int = 2

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise ValueError(f"{field.name} must be at least 0")

    def capacity(self) -> Capacity:
        """Return the caps in force on this host; ``max_disk_gb`` and the organization's cap may stay unlimited (0)."""
        cores = os.cpu_count() or 1
        vms = self.max_vms or 2 * cores
        return Capacity(
            vms=vms,
            cpu=self.max_cpu or 4 * cores,
            memory_gb=self.max_memory_gb or _host_memory_gb(),
            disk_gb=self.max_disk_gb,
            vms_per_organization=self.max_vms_per_organization or vms,
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """What all leases together may hold. A ``disk_gb`` of 0 is no limit."""

    vms: int
    cpu: int
    memory_gb: int
    disk_gb: int
    vms_per_organization: int


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Section ``[jobs]``: how long things may take, in seconds, and how much a log may hold, in bytes."""

    step_timeout: int = 3600
    acquire_timeout: float = 120.0
    source_timeout: float = 120.0
    kill_grace: float = 10.0
    min_free_disk_gb: float = 1.0
    service_retries: int = 2
    log_limit_bytes: int = 100 * 2**20

    @property
    def min_free_bytes(self) -> int:
        """Return ``min_free_disk_gb`` in bytes."""
        return int(self.min_free_disk_gb * 2**30)

    def __post_init__(self) -> None:
        for name in ("step_timeout", "acquire_timeout", "source_timeout", "log_limit_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
        for name in ("kill_grace", "min_free_disk_gb", "service_retries"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0")
