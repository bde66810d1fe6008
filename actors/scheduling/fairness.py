"""Fairness among organizations (engine.md, "The lease pool"). Pure.

The least recent usage over weight comes first, then the longest wait.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from actors.scheduling.capacity import Load
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from storage import QueuedJob, Shape

_HALF_LIFE = 3600.0
"""Seconds after which an organization's usage counts half."""

USAGE_SECONDS = 4 * _HALF_LIFE
"""Seconds after which usage is not loaded again at a restart."""

_MIN_SECONDS = 60.0
_DECAY = math.log(2) / _HALF_LIFE


@immutable
class _VmInUse:
    """A job's VM, and since when the job has it."""

    organization_id: int
    shape: Shape
    since: float


class FairShare:
    """The VMs in use by organizations, and their recent usage: vCPU seconds that decay with time.

    Instants are monotonic seconds.
    """

    def __init__(self) -> None:
        self._in_use: dict[int, _VmInUse] = {}
        self._loads: dict[int | None, Load] = {}
        self._past: dict[int, tuple[float, float]] = {}

    @property
    def leases(self) -> AbstractSet[int]:
        """The row ids of the jobs' leases."""
        return self._in_use.keys()

    def load(self, organization_id: int | None = None) -> Load:
        """Return the load of the VMs in use: by all jobs, or by an organization's."""
        return self._loads.get(organization_id, Load())

    def grant(self, lease_id: int, organization_id: int, shape: Shape, since: float) -> None:
        """Add a VM that a job uses."""
        self._remove(lease_id)
        self._in_use[lease_id] = _VmInUse(organization_id, shape, since)
        for of in (organization_id, None):
            self._loads[of] = self.load(of).plus(shape)

    def release(self, lease_id: int, now: float) -> None:
        """Remove a VM and count its time as usage. An unknown lease is ignored."""
        vm = self._remove(lease_id)
        if vm is not None:
            self.add_usage(vm.organization_id, vm.shape.cpu, vm.since, now)

    def add_usage(self, organization_id: int, cpu: int, began: float, ended: float) -> None:
        """Count the time of a VM that has ended; 0 if the clock was set back since."""
        began = min(began, ended)
        amount, at = self._past.get(organization_id, (0.0, ended))
        now = max(at, ended)
        self._past[organization_id] = (amount * _decay_after(now - at) + _usage_of(cpu, began, ended, now), now)

    def usage(self, organizations: Iterable[int], now: float) -> dict[int, float]:
        """Return the usage of each of these organizations.

        A VM in use counts for at least a minute, so that grants within one instant take turns.
        """
        usage = {}
        for organization_id in organizations:
            amount, at = self._past.get(organization_id, (0.0, now))
            usage[organization_id] = amount * _decay_after(now - at)
        for vm in self._in_use.values():
            if vm.organization_id in usage:
                began = min(vm.since, now - _MIN_SECONDS)
                usage[vm.organization_id] += _usage_of(vm.shape.cpu, began, now, now)
        return usage

    def next(self, heads: Mapping[int, QueuedJob], now: float) -> QueuedJob:
        """Return the job that should get the next VM, of each organization's next job."""
        usage = self.usage(heads, now)
        return min(
            heads.values(),
            key=lambda job: (
                usage[job.organization_id] / job.weight,
                job.scheduled_at,
                job.position,
                job.job_id,
            ),
        )

    def _remove(self, lease_id: int) -> _VmInUse | None:
        vm = self._in_use.pop(lease_id, None)
        if vm is not None:
            for of in (vm.organization_id, None):
                self._loads[of] = self.load(of).minus(vm.shape)
        return vm


def _decay_after(seconds: float) -> float:
    return math.exp(-_DECAY * seconds)


def _usage_of(cpu: int, began: float, ended: float, now: float) -> float:
    """Return the vCPU seconds from ``began`` to ``ended``, decayed to ``now``."""
    return cpu * (_decay_after(now - ended) - _decay_after(now - began)) / _DECAY
