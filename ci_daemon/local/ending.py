"""The end of a local engine's VMs, and of their leases."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.vms import VmError
from storage import HoldEnd

if TYPE_CHECKING:
    from actors.vms import Providers
    from storage import Storage

_log = logging.getLogger(__name__)


def leave_nothing(storage: Storage, providers: Providers) -> None:
    """End all VMs and leases. Raises VmError if a VM is left."""
    if left := end_leases(storage, providers):
        message = f"a part of a VM is left, which the next `ci-daemon run` removes: {'; '.join(map(str, left))}"
        raise VmError(message)


def end_leases(storage: Storage, providers: Providers) -> list[VmError]:
    """Destroy all VMs and end their leases; return why some are left. The engine does not run."""
    for hold in storage.holds.open():
        storage.holds.end(hold.id, HoldEnd.RELEASED)
    left = destroy_vms(providers)
    for lease in storage.leases.live():
        storage.leases.end(lease.id)
    return left


def destroy_vms(providers: Providers) -> list[VmError]:
    """Destroy all VMs; return why some are left."""
    left = []
    for provider in providers:
        for vm in provider.list():
            try:
                provider.destroy(vm)
            except VmError as error:  # this command or the next one tries again
                _log.warning("VM %s cannot be destroyed: %s", vm, error)
                left.append(error)
    return left
