"""Holds: the VMs of failed jobs that are kept for a while for debugging."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from actors.vms import ProviderAway
from storage import HoldEnd

if TYPE_CHECKING:
    from actors.settings import JobSettings
    from actors.vms import Providers
    from storage import Build, Lease, Storage


def seconds_to_hold(storage: Storage, settings: JobSettings, build: Build) -> int:
    """Return for how many seconds to hold the VM of a failed job; 0 for not at all.

    If the host's disk is short, no VM is held, because the other jobs need the room.
    """
    if not build.debug:
        return 0
    has_room = shutil.disk_usage(storage.directory).free >= settings.min_free_bytes
    return settings.hold_seconds if has_room else 0


def end_holds(storage: Storage, providers: Providers) -> None:
    """End the holds whose time is over, and those whose VM is lost. Their VMs are left to the reaper."""
    holds = storage.holds
    over = {hold.id for hold in holds.over()}
    for hold in holds.open():
        if hold.id in over:
            holds.end(hold.id, HoldEnd.EXPIRED)
        elif (lease := storage.leases.get(hold.lease_id)) is None or _is_lost(providers, lease):
            holds.end(hold.id, HoldEnd.LOST)


def _is_lost(providers: Providers, lease: Lease) -> bool:
    """Tell whether a VM is gone; not while nobody can tell."""
    try:
        return not providers.of(lease).alive(lease.uuid)
    except ProviderAway:
        return False
