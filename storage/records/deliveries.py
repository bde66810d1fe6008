"""Deliveries: reports of pushes by the hosts of repositories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Delivery"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A report of a push, as it came; it waits until ``processed_at`` is set.

    ``provider`` is the kind of host, ``delivery_id`` the host's own name for it.
    """

    id: int
    uuid: str
    provider: str
    delivery_id: str
    repository_id: int
    body: bytes
    received_at: datetime
    attempts: int
    processed_at: datetime | None
    last_error: str | None
