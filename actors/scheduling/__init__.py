"""Scheduling: lease pool, order of jobs, capacity, image pulls (engine.md, "The lease pool")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.scheduling.capacity import Capacity
    from actors.scheduling.parked_vms import ParkedConnections
    from actors.scheduling.pending_reason import Waiting, admission_block, awaits_image, awaits_lock, back_off
    from actors.scheduling.scheduler import load_fair_share, queue_order, schedule_next
else:
    __getattr__ = on_first_use(__name__)
