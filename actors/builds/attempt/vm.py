"""The VM of an attempt, made and connected to again and again, until it is abandoned.

Making it is tried again while its provider fails, and the SSH connection is made again when it is lost.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeVar

from actors import vms

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from storage import Clock

T = TypeVar("T")

_log = logging.getLogger(__name__)

_RECONNECT_WAITS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
_AWAY_WAITS = (0.5, 1.0, 2.0)
_AWAY_SECONDS = 5.0
"""The pauses between questions to a provider that is away."""


class Abandoned(Exception):
    """The actor has abandoned the phase that was under way."""


class VmConnection:
    """The connection to one VM.

    One thread at a time connects and uses it; any thread may `disconnect` or `abandon`.
    """

    def __init__(self, provider: vms.Provider, clock: Clock, vm_id: str) -> None:
        self._provider = provider
        self._clock = clock
        self._vm_id = vm_id
        self._lock = threading.Lock()
        self._abandoned = threading.Event()
        self._connection: vms.Connection | None = None
        self._connecting: vms.SshSocket | None = None

    @property
    def abandoned(self) -> bool:
        """True once `abandon` was called."""
        return self._abandoned.is_set()

    def check(self) -> None:
        """Raise Abandoned once `abandon` was called."""
        if self._abandoned.is_set():
            raise Abandoned

    def pause(self, seconds: float) -> None:
        """Wait. Raises Abandoned at once when `abandon` is called."""
        if self._abandoned.wait(seconds):
            raise Abandoned

    def connect(self) -> vms.Connection:
        """Make a connection. Raises VmLost, VmError or Abandoned."""
        endpoint = self._provider.connect(self._vm_id)
        with self._lock:
            self._connecting = endpoint.socket
        if self._abandoned.is_set():
            self.disconnect()
        return self.use(vms.Connection(endpoint, self._clock))

    def use(self, connection: vms.Connection) -> vms.Connection:
        """Use a connection to the VM, and close it at the end. Raises Abandoned."""
        with self._lock:
            self._connecting = None
            if not self._abandoned.is_set():
                self._connection = connection
                return connection
        connection.close()
        raise Abandoned

    def connected(self) -> vms.Connection:
        """Return the open connection, or make one. Raises VmLost, VmError or Abandoned."""
        connection = self._connection
        if connection is not None and connection.alive:
            return connection
        self.check()
        return self.connect()

    def reconnect(self) -> None:
        """Connect again, with pauses, while the VM is alive; nobody can tell while its provider is away.

        Raises VmLost if the VM is gone or does not answer in the end, and Abandoned.
        """
        self.disconnect()
        for wait in _RECONNECT_WAITS:
            self.check()
            if not self.patiently(lambda: self._provider.alive(self._vm_id)):
                message = "the VM of the command is gone"
                raise vms.VmLost(message)
            try:
                self.patiently(self.connect)
            except vms.VmLost:
                raise
            except vms.VmError:
                self.pause(wait)
            else:
                return
        message = "the VM runs but no longer answers on SSH"
        raise vms.VmLost(message)

    def patiently(self, call: Callable[[], T]) -> T:
        """Call, again and again while the provider is away, for as long as it takes.

        Raises Abandoned, and what the call raises else.
        """
        for wait in chain(_AWAY_WAITS, repeat(_AWAY_SECONDS)):
            try:
                return call()
            except vms.ProviderAway as error:
                _log.warning("VM %s waits for its provider: %s", self._vm_id, error)
                self.pause(wait)
        raise AssertionError

    def disconnect(self) -> None:
        """Close the connection, and abort one that is being made."""
        with self._lock:
            connection, self._connection = self._connection, None
            connecting, self._connecting = self._connecting, None
        if connecting is not None:
            with contextlib.suppress(OSError):
                connecting.shutdown(socket.SHUT_RDWR)
        if connection is not None:
            connection.close()

    def abandon(self) -> None:
        """Make the current use of the VM end soon, and refuse further use. Idempotent."""
        self._abandoned.set()
        self.disconnect()


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
        making: Callable[[], AbstractContextManager[None]],
        *,
        seconds: float,
        pauses: tuple[float, ...],
        hindrance: Callable[[vms.VmError], str | None],
    ) -> None:
        """``making`` measures the making of a VM.

        ``hindrance`` returns why the host has no room for a VM that could not be made, None if it has.
        """
        self._provider = provider
        self._connection = connection
        self._clock = clock
        self._making = making
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
        with self._making():
            self._provider.create(spec)
