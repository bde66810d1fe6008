"""The VMs of renders: their creation, disk limit and destruction, and the one that waits for the next."""

from __future__ import annotations

import logging
import shutil
import threading
import uuid
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt.assignment import spec_of
from actors.builds.attempt.vm import Abandoned, VmConnection
from actors.builds.outcome import DiskUse, disk_failure, seconds_to_full
from actors.render.envelope import RenderFailed
from actors.render.loader import Loader
from actors.scheduling.parked_vms import ParkedConnections
from actors.scheduling.pending_reason import memory_is_short
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.cleanup.host_disk import HostDisk
    from actors.parts import VmParts
    from actors.settings import RenderSettings
    from storage import Lease, Storage


_log = logging.getLogger(__name__)
_WAIT_SECONDS = 600.0
_TURN_SECONDS = 10.0
"""The time after an organization's render in which it may have another one, for which the VM waits."""


@contextmanager
def running_vm(
    storage: Storage, provider: vms.Provider, parked: ParkedConnections, lease: Lease, link: VmConnection
) -> Iterator[vms.Connection]:
    """Attach the disk to the parked VM of a lease, or make the VM, and connect; destroy it afterwards.

    While the provider is away, it waits without a limit. Raises VmError and Abandoned.
    """
    try:
        link.check()
        if (connection := parked.take(lease.uuid)) is not None:
            link.use(connection)
        link.check()
        link.patiently(lambda: _make(provider, lease))
        yield link.patiently(link.connected)
    finally:
        parked.discard(lease.uuid)
        link.disconnect()
        release(storage, provider, lease)


def _make(provider: vms.Provider, lease: Lease) -> None:
    if provider.parked(lease.uuid):
        provider.attach(spec_of(lease))
    else:
        provider.create(spec_of(lease))


def release(storage: Storage, provider: vms.Provider, lease: Lease) -> None:
    """Destroy the VM and end its lease; if that fails, leave both to the reaper."""
    try:
        provider.destroy(lease.uuid)
    except vms.VmError as error:
        _log.warning("VM %s cannot be destroyed and is left to the reaper: %s", lease.uuid, error)
    else:
        storage.leases.end(lease.id)


@contextmanager
def disk_limited(
    storage: Storage, provider: vms.Provider, lease: Lease, link: VmConnection, host_disk: HostDisk, *, min_free: int
) -> Iterator[None]:
    """Abandon the VM if it fills its disk, or leaves the host less than ``min_free`` bytes of disk.

    Raises RenderFailed in that case.
    """
    stopped, disk_full = threading.Event(), threading.Event()

    def watch() -> None:
        with ExitStack() as ended, suppress(vms.VmError, OSError):  # the VM is being destroyed
            ended.callback(host_disk.forget, lease.uuid)
            use = DiskUse(written=0, free=shutil.disk_usage(storage.directory).free)
            while not stopped.wait(seconds_to_full(use, lease.shape, min_free=min_free)):
                disk, free = provider.disk(lease.uuid), shutil.disk_usage(storage.directory).free
                limit = lease.shape.disk_gb * 2**30
                use = DiskUse(disk.bytes, free, host_disk.note(lease.uuid, disk, limit, free=free, min_free=min_free))
                if disk_failure(use, lease.shape) is not None:
                    disk_full.set()
                    link.abandon()
                    return

    threading.Thread(target=watch, name="render-disk", daemon=True).start()
    try:
        yield
    except (vms.VmError, Abandoned):
        if disk_full.is_set():
            message = f"render failed: it filled the VM's disk of {lease.shape.disk_gb} GB, or the host's disk"
            raise RenderFailed(message) from None
        raise
    finally:
        stopped.set()


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
    Organizations that render take turns: who had the last one leaves it to the others.
    """

    def __init__(self, parts: VmParts, *, memory_is_short: Callable[[], bool] = memory_is_short) -> None:
        self._storage = parts.storage
        self._providers = parts.providers
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._memory_is_short = memory_is_short
        self._making = threading.Lock()
        self._lock = threading.Lock()
        self._latest: VmWanted | None = None
        self._since = 0.0
        self._waiting: RenderVm | None = None
        self._asked: dict[int, float] = {}
        self._last: int | None = None
        self._link: VmConnection | None = None
        self._closed = False

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

    @property
    def is_shared(self) -> bool:
        """True if several organizations have rendered in the last seconds."""
        with self._lock:
            return self._others(None) > 1

    def take(self, wanted: VmWanted, organization: int) -> RenderVm | None:
        """Return the VM, for the caller to close, if it is as wanted and still runs; else destroy it.

        None if it is the turn of another organization.
        """
        with self._lock:
            self._since = self._asked[organization] = self._clock.monotonic()
            if self._waiting is not None and self._last == organization and self._others(organization):
                return None
            latest, self._latest = self._latest, wanted
            vm, self._waiting = self._waiting, None
            self._last = organization if vm is not None else self._last
        if vm is None or (latest == wanted and vm.loader.alive):
            return vm
        vm.close()
        return None

    def _others(self, organization: int | None) -> int:
        """Count the other organizations that have rendered in the last seconds."""
        late = self._clock.monotonic() - _TURN_SECONDS
        self._asked = {each: at for each, at in self._asked.items() if at > late}
        return len(self._asked.keys() - {organization})

    def make(self) -> None:
        """Make the VM, unless it is there or `close` was called. Raises VmError."""
        with self._making:
            with self._lock:
                latest = self._latest if self._waiting is None and not self._closed else None
            if latest is None:
                return
            try:
                vm = self._made(latest)
            except Abandoned:
                return
            finally:
                self._link = None
            with self._lock:
                if self._latest == latest and not self._closed:
                    self._waiting = vm
                    return
            vm.close()

    def discard(self) -> None:
        """Destroy the VM, if there is one; another may be made."""
        with self._lock:
            vm, self._waiting = self._waiting, None
        if vm is not None:
            vm.close()

    def close(self) -> None:
        """Destroy the VM and make no other. One that is being made is destroyed by the thread that makes it."""
        with self._lock:
            self._closed = True
            link = self._link
        if link is not None:
            link.abandon()
        self.discard()

    def _made(self, wanted: VmWanted) -> RenderVm:
        storage, provider = self._storage, self._providers.named(wanted.provider)
        lease = storage.leases.reserve_unclaimed(str(uuid.uuid4()), provider.name, wanted.image, wanted.settings.shape)
        link = VmConnection(provider, self._clock, lease.uuid)
        with self._lock:
            self._link = link
            if self._closed:
                link.abandon()
        try:
            provider.park(lease.uuid)  # at a low priority, because nobody waits for it
            member = provider.member(lease.uuid)
        except vms.VmError:
            storage.leases.end(lease.id)
            raise
        vm = loaded_vm(storage, provider, ParkedConnections(), wanted.settings, lease, link)
        storage.leases.parked(lease.id, member)
        return vm
