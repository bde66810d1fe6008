"""The providers of a host, side by side: each VM and disk belongs to the one that made it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from actors.vms.provider import Provider
    from storage import Lease, Snapshot


class Providers:
    """The providers by name, each opened when it is first needed. Safe in any thread.

    Iterate over them for what belongs to no lease: all that may have VMs or disks are yielded.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Provider]], used: Iterable[str]) -> None:
        """Open a provider by its maker; those ``used`` may have VMs or disks of an earlier process."""
        self._makers = makers
        self._used = frozenset(used)
        self._opened: dict[str, Provider] = {}
        self._lock = threading.Lock()

    def named(self, name: str) -> Provider:
        """Return a provider by name. Raises VmError if there is none."""
        with self._lock:
            if name not in self._opened:
                if name not in self._makers:
                    known = ", ".join(self._makers)
                    message = f'this service has no provider "{name}" of VMs, only {known}'
                    raise VmError(message)
                self._opened[name] = self._makers[name]()
            return self._opened[name]

    def of(self, made: Lease | Snapshot) -> Provider:
        """Return the provider of a lease's VM or of a snapshot. Raises VmError if it is unknown."""
        return self.named(made.provider)

    def __iter__(self) -> Iterator[Provider]:
        """Yield each provider that may have VMs or disks."""
        for name in self._makers:
            if name in self._used or name in self._opened:
                yield self.named(name)

    def close(self) -> None:
        """Free what this process holds of the providers; VMs live on."""
        for provider in self._opened.values():
            provider.close()
