"""The making of an attempt's VM, which is tried again while its provider fails."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors import vms

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.builds.attempt.vm_connection import VmConnection
    from actors.metrics import EngineMetrics
    from storage import Clock

_log = logging.getLogger(__name__)

_ROOM_PAUSE = 1.0


class VmMaker:
    """Attaches the disk to a parked VM, or makes a VM.

    It tries for at most so many ``seconds``, and rests for each of the ``pauses`` between two tries.
    """

    def __init__(
        self,
        provider: vms.Provider,
        connection: VmConnection,
        clock: Clock,
        metrics: EngineMetrics,
        *,
        seconds: float,
        pauses: tuple[float, ...],
        hindrance: Callable[[vms.VmError], str | None],
    ) -> None:
        """``hindrance`` returns why the host has no room for a VM that could not be made, None if it has."""
        self._provider = provider
        self._connection = connection
        self._clock = clock
        self._metrics = metrics
        self._seconds = seconds
        self._pauses = pauses
        self._hindrance = hindrance

    def make(self, spec: vms.VmSpec) -> None:
        """Make the VM. While the provider is away, or the host has no room for it, it waits without a limit.

        Raises ImageNotFound, SnapshotNotFound and VmLost at once, VmError for the last try, and Abandoned before it
        makes one.
        """
        deadline = self._clock.monotonic() + self._seconds
        pauses = iter(self._pauses)
        while True:
            self._connection.check()
            try:
                self._connection.patiently(lambda: self._try(spec))
            except (vms.ImageNotFound, vms.SnapshotNotFound, vms.VmLost):
                raise
            except vms.VmError as error:
                if (why := self._hindrance(error)) is not None:
                    _log.warning("VM %s waits, as %s: %s", spec.id, why, error)
                    self._connection.pause(_ROOM_PAUSE)
                    deadline, pauses = self._clock.monotonic() + self._seconds, iter(self._pauses)
                    continue
                pause = next(pauses, None)
                if pause is None or self._clock.monotonic() + pause > deadline:
                    raise
                _log.warning("VM %s could not be made and is tried again: %s", spec.id, error)
                self._connection.pause(pause)
            else:
                return

    def _try(self, spec: vms.VmSpec) -> None:
        if self._provider.parked(spec.id):
            self._provider.attach(spec)
            return
        self._connection.disconnect()
        self._provider.destroy(spec.id)
        with self._metrics.making():
            self._provider.create(spec)
