"""The CPU of the host, divided among organizations: many VMs get no more of it than one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.vms import USUAL_WEIGHT

if TYPE_CHECKING:
    from actors.vms import Provider
    from storage import Clock

_FACTOR = 1.5
"""VMs keep their weight until their number has changed by more than that.

Each start would else write to all. Less by this factor is clearly less, too.
"""

_YOUNG_SECONDS = 3.0
_YOUNG_FACTOR = 4
_REST_FACTOR = 3
"""Transfers that give way keep a quarter of their speed."""

_HALF_LIFE = 10.0
"""Seconds after which the time of an organization's VMs counts half."""


@dataclass
class _Vm:
    """A running VM, since an instant in monotonic seconds; its weight is 0 before it has one."""

    provider: Provider
    since: float
    weight: int = 0


@dataclass
class _Part:
    """The running VMs of an organization.

    ``weighed`` is how many they were when all were weighed last, ``seconds`` the time of its VMs, which decays, at the
    instant ``counted``. The latest VM came at the instant ``joined``.
    """

    counted: float
    joined: float
    vms: dict[str, _Vm] = field(default_factory=dict)
    weighed: int = 0
    seconds: float = 0.0

    def count(self, now: float) -> None:
        """Count the time of the VMs up to now."""
        kept = 0.5 ** ((now - self.counted) / _HALF_LIFE)
        self.seconds = self.seconds * kept + len(self.vms) * _HALF_LIFE * (1 - kept)
        self.counted = now

    def weight_of_each(self) -> int:
        """Return the weight of each VM by their number, in which small changes do not count."""
        number = len(self.vms)
        if not self.weighed / _FACTOR <= number <= self.weighed * _FACTOR:
            self.weighed = number
        return max(1, USUAL_WEIGHT // self.weighed)


class CpuShares:
    """Divides an organization's share of the CPU, that of one VM, among its VMs. Safe in any thread.

    A VM has more in its first seconds, if another organization has had clearly more VMs lately, and bulk work of that
    one gives way: what begins and is soon over does not wait for organizations that always run something. A share
    counts only where several want more CPU than there is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._parts: dict[int, _Part] = {}
        self._organizations: dict[str, int] = {}

    def join(self, organization_id: int, vm_id: str, provider: Provider) -> None:
        """Give a VM, which runs or is being made, a part of its organization's share. Idempotent."""
        with self._lock:
            now = self._count()
            self._organizations[vm_id] = organization_id
            part = self._parts.setdefault(organization_id, _Part(now, now))
            part.joined = now
            part.vms.setdefault(vm_id, _Vm(provider, now))
            self._weigh(now)

    def leave(self, vm_id: str) -> None:
        """Leave the part of a VM to the others of its organization. Idempotent."""
        with self._lock:
            organization_id = self._organizations.pop(vm_id, None)
            if organization_id is not None:
                now = self._count()
                del self._parts[organization_id].vms[vm_id]
                self._weigh(now)

    def rest_of(self, organization_id: int, worked: float) -> float:
        """Return how many seconds bulk work of an organization should rest after ``worked`` seconds.

        It rests while an organization that has had clearly fewer VMs lately begins something every few seconds; its
        transfers go on at a part of their speed.
        """
        with self._lock:
            now = self._count()
            part = self._parts.get(organization_id)
            if part is None:
                return 0.0
            lighter = (each for each in self._parts.values() if each.seconds * _FACTOR < part.seconds)
            begins = any(now - each.joined < _YOUNG_SECONDS for each in lighter)
            return worked * _REST_FACTOR if begins else 0.0

    def settle(self) -> None:
        """Weigh the VMs that are young no more."""
        with self._lock:
            self._weigh(self._count())

    def _count(self) -> float:
        """Count the time of all VMs up to now, which is returned, and forget who has had none for long."""
        now = self._clock.monotonic()
        for organization_id, part in list(self._parts.items()):
            part.count(now)
            if not part.vms and part.seconds < 1 and now - part.joined > _YOUNG_SECONDS:
                del self._parts[organization_id]
        return now

    def _weigh(self, now: float) -> None:
        """Give each VM its weight."""
        most = max((part.seconds for part in self._parts.values() if part.vms), default=0.0)
        for part in self._parts.values():
            if not part.vms:
                continue
            usual, light = part.weight_of_each(), part.seconds * _FACTOR < most
            for vm_id, vm in part.vms.items():
                weight = usual * _YOUNG_FACTOR if light and now - vm.since < _YOUNG_SECONDS else usual
                if weight != vm.weight:
                    vm.weight = weight
                    vm.provider.weigh(vm_id, weight)
