"""The VM that fills the host's disk: its job fails with ``disk_full`` (engine.md, "Error codes")."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from actors.vms import VmDisk

_MIN_BYTES_TO_MATTER = 64 * 2**20
_AMPLE_FACTOR = 2


@immutable
class Consumer:
    """A VM and the bytes that it takes.

    ``limit`` is the disk of its shape, ``grown`` its growth since the host last had ample space.
    """

    vm: str
    taken: int
    limit: int
    grown: int

    @property
    def excess(self) -> int:
        """The bytes beyond the VM's own disk."""
        return max(0, self.taken - self.limit)


def largest_consumer(consumers: Iterable[Consumer]) -> Consumer | None:
    """Return the VM that fills the host's disk: the one furthest over its limit, else the fastest grown.

    None if no VM took enough to matter: then something else on the host fills it.
    """
    worst = max(consumers, key=lambda each: (each.excess, each.grown, each.taken), default=None)
    return worst if worst is not None and max(worst.excess, worst.grown) >= _MIN_BYTES_TO_MATTER else None


@immutable
class _Measurement:
    """The last measurement of one VM's disk, and what the VM took when the host last had ample space."""

    disk: VmDisk
    limit: int
    free_without_vms: int
    taken_when_ample: int


class HostDisk:
    """The last measurement of the disk of every working VM. Safe in any thread.

    Some files of a VM cannot be measured, see ``VmDisk``. Space that vanished since a VM's first measurement, and that
    no measured file explains, is charged to each VM with such files. ``free_without_vms`` is the space that the host
    would have if no VM had written anything; it falls by just that loss.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measurements: dict[str, _Measurement] = {}
        self._chosen: str | None = None

    def note(self, vm: str, disk: VmDisk, limit: int, *, free: int, min_free: int) -> bool:
        """Record a VM's disk and the bytes free on the host; tell whether that VM's job has to fail.

        One VM is chosen at a time, so that the host gets its space back before the next.
        """
        with self._lock:
            earlier = self._measurements.get(vm)
            measurement = replace(earlier, disk=disk) if earlier else _Measurement(disk, limit, 0, 0)
            self._measurements[vm] = measurement
            free_without_vms = self._without_vms(free)
            if earlier is None:
                measurement = replace(measurement, free_without_vms=free_without_vms)
            if free >= _AMPLE_FACTOR * min_free:
                measurement = replace(measurement, taken_when_ample=_taken(measurement, free_without_vms))
            self._measurements[vm] = measurement
            if free < min_free and self._chosen is None:
                found = largest_consumer(self._consumers(free_without_vms))
                self._chosen = found.vm if found else None
            return self._chosen == vm

    def forget(self, vm: str, *, kept: bool = False) -> None:
        """Forget a VM that is gone. Its disk is free again, or ``kept`` as a snapshot, charged to no VM."""
        with self._lock:
            gone = self._measurements.pop(vm, None)
            if gone and kept:
                self._measurements = {
                    name: replace(each, free_without_vms=each.free_without_vms - gone.disk.bytes)
                    for name, each in self._measurements.items()
                }
            if self._chosen == vm:
                self._chosen = None

    def retain(self, vms: Collection[str]) -> None:
        """Forget all VMs but these."""
        for vm in self._measurements.keys() - vms:
            self.forget(vm)

    def _without_vms(self, free: int) -> int:
        return free + sum(measurement.disk.bytes for measurement in self._measurements.values())

    def _consumers(self, free_without_vms: int) -> Iterable[Consumer]:
        for vm, measurement in self._measurements.items():
            taken = _taken(measurement, free_without_vms)
            yield Consumer(vm, taken, measurement.limit, max(0, taken - measurement.taken_when_ample))


def _taken(measurement: _Measurement, free_without_vms: int) -> int:
    hidden = max(0, measurement.free_without_vms - free_without_vms) if measurement.disk.unmeasured else 0
    return measurement.disk.bytes + hidden
