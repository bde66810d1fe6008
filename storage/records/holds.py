"""VMs that outlive their jobs, for debugging."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Hold", "HoldEnd"]


class HoldEnd(StrEnum):
    """Reasons for the end of a hold: its time, a person, a lost VM, a deleted pipeline or organization."""

    EXPIRED = "expired"
    RELEASED = "released"
    KILLED = "killed"
    LOST = "lost"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Hold:
    """The VM of a failed job, held from ``started_at`` until ``until`` at the latest.

    ``vm`` is its lease's UUID. ``micro_cents`` is its price per second. ``reason`` is None until the hold ends or is
    shortened. ``finished_at`` is when it ended; from then on ``amount_cents`` is its price.
    """

    id: int
    lease_id: int
    vm: str
    job_id: int
    started_at: datetime
    until: datetime
    micro_cents: int
    reason: HoldEnd | None
    finished_at: datetime | None
    amount_cents: int
