"""VMs that outlive their jobs, for somebody to look into them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Hold", "HoldEnd"]


class HoldEnd(StrEnum):
    """Why a hold ended: its time was over, somebody was done with it, or what it was about went away."""

    EXPIRED = "expired"
    RELEASED = "released"
    KILLED = "killed"
    LOST = "lost"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Hold:
    """The VM of a failed job, kept from ``started_at`` until ``until`` at the latest.

    ``vm`` is its lease's UUID. ``micro_cents`` is its price a second. ``reason`` is what ends it, None while nothing
    does before its time; ``finished_at`` is when it ended, after which ``amount_cents`` is what it cost.
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
