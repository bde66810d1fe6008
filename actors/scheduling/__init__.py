"""Scheduling: lease pool, order of jobs, capacity, image pulls (engine.md, "The lease pool")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.scheduling.capacity import Capacity
    from actors.scheduling.parked_vms import ParkedConnections
    from actors.scheduling.waiting import WaitingWork, jobs_in_line, waiting_work
else:
    __getattr__ = on_first_use(__name__)
