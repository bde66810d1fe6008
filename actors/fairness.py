"""Whose turn it is: least recent usage over weight, then who waits longest. Pure (engine.md, "Actors")."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.capacity import Load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from storage import QueuedJob, Shape

__all__ = ["REMEMBERED", "Holdings"]

_HALF_LIFE = 3600.0
"""Seconds after which what an organization used counts half."""

REMEMBERED = 4 * _HALF_LIFE
"""Seconds after which it need not be remembered over a restart."""

_ADVANCE = 60.0
_DECAY = math.log(2) / _HALF_LIFE


@dataclass(frozen=True, slots=True)
class _Held:
    """A VM that a job has, and since when."""

    organization_id: int
    shape: Shape
    since: float


class Holdings:
    """What organizations hold of the host, and what they used of late: vCPU seconds that fade with time.

    Instants are monotonic seconds.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._past: dict[int, tuple[float, float]] = {}

    @property
    def leases(self) -> AbstractSet[int]:
        """The row ids of the leases that jobs hold."""
        return self._held.keys()

    def load(self, organization_id: int | None = None) -> Load:
        """Return what jobs hold: all of them, or an organization's."""
        held = self._held.values()
        return Load.of(each.shape for each in held if organization_id in {None, each.organization_id})

    def hold(self, lease_id: int, organization_id: int, shape: Shape, since: float) -> None:
        """Count a VM that a job has."""
        self._held[lease_id] = _Held(organization_id, shape, since)

    def let_go(self, lease_id: int, now: float) -> None:
        """Count a VM's time, and the VM no further. A lease that is not held is fine."""
        held = self._held.pop(lease_id, None)
        if held is not None:
            self.used(held.organization_id, held.shape.cpu, held.since, now)

    def used(self, organization_id: int, cpu: int, began: float, ended: float) -> None:
        """Count a VM's time that is over."""
        amount, at = self._past.get(organization_id, (0.0, ended))
        now = max(at, ended)
        self._past[organization_id] = (amount * _faded(now - at) + _worth(cpu, began, ended, now), now)

    def usage(self, now: float) -> dict[int, float]:
        """Return what each organization used; who used nothing is absent.

        A VM that a job has counts for a minute at least: so grants within one instant take turns.
        """
        usage = {organization: amount * _faded(now - at) for organization, (amount, at) in self._past.items()}
        for held in self._held.values():
            began = min(held.since, now - _ADVANCE)
            usage[held.organization_id] = usage.get(held.organization_id, 0.0) + _worth(held.shape.cpu, began, now, now)
        return usage

    def next(self, heads: Iterable[QueuedJob], now: float) -> QueuedJob:
        """Return which of the organizations' next jobs should have the next VM."""
        usage = self.usage(now)
        return min(
            heads,
            key=lambda job: (
                usage.get(job.organization_id, 0.0) / job.weight,
                job.scheduled_at,
                job.position,
                job.job_id,
            ),
        )


def _faded(seconds: float) -> float:
    return math.exp(-_DECAY * seconds)


def _worth(cpu: int, began: float, ended: float, now: float) -> float:
    """Return the vCPU seconds from ``began`` to ``ended`` as they count ``now``."""
    return cpu * (_faded(now - ended) - _faded(now - began)) / _DECAY
