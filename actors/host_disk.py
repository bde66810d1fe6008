"""Search for the VM that fills the host's disk, whose job then fails with ``disk_full`` (engine.md)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from actors.vms import VmDisk

__all__ = ["HostDisk", "Suspect", "culprit"]

_SMALLEST_CAUSE = 64 * 2**20
_AT_EASE = 2


@dataclass(frozen=True, slots=True)
class Suspect:
    """A VM and the bytes that it takes.

    ``limit`` is the disk of its shape, ``grown`` its growth since the host last had ample room.
    """

    vm: str
    taken: int
    limit: int
    grown: int

    @property
    def excess(self) -> int:
        """The bytes beyond the VM's own disk."""
        return max(0, self.taken - self.limit)


def culprit(suspects: Iterable[Suspect]) -> Suspect | None:
    """Return the VM that fills the host's disk: the one furthest over its limit, else the fastest grown.

    None if no VM took enough to matter: then something else on the host fills it.
    """
    worst = max(suspects, key=lambda each: (each.excess, each.grown, each.taken), default=None)
    return worst if worst is not None and max(worst.excess, worst.grown) >= _SMALLEST_CAUSE else None


@dataclass(frozen=True, slots=True)
class _Look:
    disk: VmDisk
    limit: int
    base: int
    eased: int


class HostDisk:
    """The last measurement of the disk of every working VM. Safe in any thread.

    Some files of a VM cannot be measured, see ``VmDisk``. A VM with such files is charged with the room that the host
    has lost since that VM's first measurement and that is in no VM's measured files. ``base`` is the room that the host
    would have if no VM had written anything; it falls by just that loss.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}
        self._condemned: str | None = None

    def note(self, vm: str, disk: VmDisk, limit: int, *, free: int, min_free: int) -> bool:
        """Record a VM's disk and the bytes free on the host; tell whether that VM's job has to fail.

        One VM is chosen at a time, so that the host gets its room back before the next.
        """
        with self._lock:
            earlier = self._looks.get(vm)
            look = replace(earlier, disk=disk) if earlier else _Look(disk, limit, 0, 0)
            self._looks[vm] = look
            base = self._base(free)
            if earlier is None:
                look = replace(look, base=base)
            if free >= _AT_EASE * min_free:
                look = replace(look, eased=_taken(look, base))
            self._looks[vm] = look
            if free < min_free and self._condemned is None:
                found = culprit(self._suspects(base))
                self._condemned = found.vm if found else None
            return self._condemned == vm

    def forget(self, vm: str, *, kept: bool = False) -> None:
        """Forget a VM that is gone. Its disk is free again, or ``kept`` as a snapshot, charged to no VM."""
        with self._lock:
            gone = self._looks.pop(vm, None)
            if gone and kept:
                self._looks = {
                    name: replace(each, base=each.base - gone.disk.bytes) for name, each in self._looks.items()
                }
            if self._condemned == vm:
                self._condemned = None

    def retain(self, vms: Collection[str]) -> None:
        """Forget all VMs but these."""
        for vm in self._looks.keys() - vms:
            self.forget(vm)

    def _base(self, free: int) -> int:
        return free + sum(look.disk.bytes for look in self._looks.values())

    def _suspects(self, base: int) -> Iterable[Suspect]:
        for vm, look in self._looks.items():
            taken = _taken(look, base)
            yield Suspect(vm, taken, look.limit, max(0, taken - look.eased))


def _taken(look: _Look, base: int) -> int:
    hidden = max(0, look.base - base) if look.disk.unmeasured else 0
    return look.disk.bytes + hidden
