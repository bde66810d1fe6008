"""The configuration sections of the live service, with their defaults."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from actors.capacity import Capacity

__all__ = ["ArtifactSettings", "CacheSettings", "JobSettings", "PoolSettings"]

_MOST_FILES = 100_000
_MOST_GB = 1_000_000
_ONE_DAY = 86_400
_THIRTY_YEARS = 30 * 365 * _ONE_DAY
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_THE_SERVICE = re.compile(r"CI|CI_.*")


def _host_memory_gb() -> int:
    return max(1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Section ``[pool]``: caps on VMs for the host and per organization, warm VMs, and waiting for a VM.

    A host's cap of 0 takes the default for this host: two VMs and four vCPUs per core, all of its memory, and no cap on
    disk. An organization's cap of 0 means that only the host's applies. ``warm`` VMs of the default image are kept
    ready, and of other images as many as ``warm_images`` says, while ``max_vms`` leaves room. A job that gets no VM
    within ``queue_timeout`` seconds is timed out (0: it waits for ever). No job starts while the state directory's disk
    has less than ``low_disk_gb`` left.
    """

    max_vms: int = 0
    max_cpu: int = 0
    max_memory_gb: int = 0
    max_disk_gb: int = 0
    max_vms_per_organization: int = 0
    max_cpu_per_organization: int = 0
    max_memory_gb_per_organization: int = 0
    max_disk_gb_per_organization: int = 0
    warm: int = 2
    warm_images: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    queue_timeout: int = 86_400
    low_disk_gb: float = 5.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "warm_images" and not 0 <= value < math.inf:
                raise ValueError(f"{each.name} must be at least 0")
        if self.queue_timeout > _THIRTY_YEARS:
            raise ValueError(f"queue_timeout must be at most {_THIRTY_YEARS}; 0 is for ever")
        for image, count in self.warm_images.items():
            if count < 0:
                raise ValueError(f'warm_images: there cannot be {count} VMs of "{image}": the least is 0')

    def host(self) -> Capacity:
        """Return the caps for all VMs together on this host."""
        cores = os.cpu_count() or 1
        return Capacity(
            vms=self.max_vms or 2 * cores,
            cpu=self.max_cpu or 4 * cores,
            memory_gb=self.max_memory_gb or _host_memory_gb(),
            disk_gb=self.max_disk_gb,
        )

    def organization(self) -> Capacity:
        """Return the caps for the VMs of any one organization."""
        return Capacity(
            vms=self.max_vms_per_organization,
            cpu=self.max_cpu_per_organization,
            memory_gb=self.max_memory_gb_per_organization,
            disk_gb=self.max_disk_gb_per_organization,
        )


@dataclass(frozen=True, slots=True)
class ArtifactSettings:
    """Section ``[artifacts]``: the most files and GB that a job may leave.

    Collecting them may take ``timeout`` seconds; what is not collected by then is not kept.
    """

    max_files: int = 1000
    max_gb: float = 2.0
    timeout: float = 300.0

    def __post_init__(self) -> None:
        if not 0 <= self.max_files <= _MOST_FILES:
            raise ValueError(f"max_files must be from 0 to {_MOST_FILES}")
        if not 0 <= self.max_gb <= _MOST_GB:
            raise ValueError(f"max_gb must be from 0 to {_MOST_GB}")
        if not self.timeout > 0:
            raise ValueError("timeout must be above 0")

    @property
    def max_bytes(self) -> int:
        """Return ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Section ``[cache]``: the most GB of disks that are kept for later builds. 0 turns the cache off."""

    max_gb: float = 50.0

    def __post_init__(self) -> None:
        if not 0 <= self.max_gb <= _MOST_GB:
            raise ValueError(f"max_gb must be from 0 to {_MOST_GB}")

    @property
    def max_bytes(self) -> int:
        """Return ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Section ``[jobs]``: time-outs in seconds, and limits on disk, logs and retries of each job.

    A step may run for ``step_timeout`` if it sets no time-out of its own. Making a VM may take ``acquire_timeout``,
    laying the source into it ``source_timeout``. A command that is told to end has ``kill_grace`` before it is killed.
    If the host has less than ``min_free_disk_gb`` left, the job that fills its disk fails (disk_full). A job that fails
    through the service's fault is retried ``service_retries`` times. After ``log_limit_bytes`` the rest of a job's log
    is dropped. The VM of a failed job is held for ``hold_seconds`` if its build asks for that (0: never). Every job
    gets the variables of ``env``, for proxies, mirrors or a locale; its step may override them. They are not masked in
    logs, so do not put secrets there.
    """

    step_timeout: int = 3600
    acquire_timeout: float = 120.0
    source_timeout: float = 120.0
    kill_grace: float = 10.0
    min_free_disk_gb: float = 1.0
    service_retries: int = 2
    log_limit_bytes: int = 100 * 2**20
    hold_seconds: int = 600
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

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
        if not 0 <= self.hold_seconds <= _ONE_DAY:
            raise ValueError(f"hold_seconds must be from 0 to {_ONE_DAY}")
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f'env: "{name}" is no name of a variable')
            if _OF_THE_SERVICE.fullmatch(name):
                raise ValueError(f'env: "{name}" is set by the service')
            if "\0" in value:
                raise ValueError(f'env: the value of "{name}" holds a null byte')
