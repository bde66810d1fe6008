"""The VM that waits for the next render: its disk is attached and the DSL is loaded."""

from __future__ import annotations

import logging
import threading
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.vm_connection import VmConnection
from actors.render.loader import Loader
from actors.render.vm import running_vm
from actors.scheduling.host_memory import memory_is_short
from actors.scheduling.parked_vms import ParkedConnections
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.engine_settings import LiveSettings
    from actors.render.settings import RenderSettings
    from storage import Clock, Lease, Storage

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 600.0


@immutable
class RenderVm:
    """A VM with the DSL loaded, which renders once and is destroyed by `close`."""

    lease: Lease
    link: VmConnection
    loader: Loader
    closing: ExitStack

    def close(self) -> None:
        """Destroy the VM and end its lease. Idempotent."""
        self.closing.close()


def loaded_vm(
    storage: Storage,
    provider: vms.Provider,
    parked: ParkedConnections,
    settings: RenderSettings,
    lease: Lease,
    link: VmConnection,
) -> RenderVm:
    """Attach the disk to the parked VM of a lease, or make the VM, and start loading the DSL.

    Raises VmError and Abandoned, and leaves nothing behind then.
    """
    with ExitStack() as opening:
        connection = opening.enter_context(running_vm(storage, provider, parked, lease, link))
        loader = opening.enter_context(Loader(connection, settings))
        return RenderVm(lease, link, loader, opening.pop_all())


@immutable
class VmWanted:
    """The VM that a render takes: of a provider, from an image, with what the settings say."""

    provider: str
    image: str
    settings: RenderSettings


class WaitingVm:
    """At most one VM that waits for a render like the latest, for ten minutes. Safe in any thread.

    Its lease is that of a preview: no job gets the VM, and the next process, which has no connection to it, ends it.
    """

    def __init__(
        self,
        storage: Storage,
        providers: vms.Providers,
        clock: Clock,
        live_settings: LiveSettings,
        memory_is_short: Callable[[], bool] = memory_is_short,
    ) -> None:
        self._storage = storage
        self._providers = providers
        self._clock = clock
        self._live_settings = live_settings
        self._memory_is_short = memory_is_short
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._latest: VmWanted | None = None
        self._since = 0.0
        self._waiting: RenderVm | None = None

    @property
    def is_there(self) -> bool:
        """True while a VM waits."""
        return self._waiting is not None

    @property
    def is_wanted(self) -> bool:
        """True if there was a render of late, and VMs may wait."""
        with self._lock:
            latest, since = self._latest, self._since
        settings = self._live_settings.now
        return (
            latest is not None
            and latest.settings == settings.render
            and self._clock.monotonic() < since + _WAIT_SECONDS
            and settings.pool.parked > 0
            and self._providers.named(latest.provider).description.parks
            and not self._memory_is_short()
        )

    def take(self, wanted: VmWanted) -> RenderVm | None:
        """Return the VM, for the caller to close, if it is as wanted and still runs; else destroy it."""
        with self._lock:
            latest, self._latest, self._since = self._latest, wanted, self._clock.monotonic()
            vm, self._waiting = self._waiting, None
        if vm is None or (latest == wanted and vm.loader.alive):
            return vm
        vm.close()
        return None

    def make(self) -> None:
        """Make the VM, unless it is there. Raises VmError."""
        with self._making:
            with self._lock:
                latest = self._latest if self._waiting is None else None
            if latest is None:
                return
            vm = self._made(latest)
            with self._lock:
                if self._latest == latest:
                    self._waiting = vm
                    return
            vm.close()

    def discard(self) -> None:
        """Destroy the VM, if there is one."""
        with self._lock:
            vm, self._waiting = self._waiting, None
        if vm is not None:
            vm.close()

    def _made(self, wanted: VmWanted) -> RenderVm:
        storage, provider = self._storage, self._providers.named(wanted.provider)
        lease = storage.leases.reserve_unclaimed(str(uuid.uuid4()), provider.name, wanted.image, wanted.settings.shape)
        link = VmConnection(provider, self._clock, lease.uuid)
        try:
            provider.park(lease.uuid)  # at a low priority, because nobody waits for it
            member = provider.member(lease.uuid)
        except vms.VmError:
            storage.leases.end(lease.id)
            raise
        vm = loaded_vm(storage, provider, ParkedConnections(), wanted.settings, lease, link)
        storage.leases.parked(lease.id, member)
        return vm
