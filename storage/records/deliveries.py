"""Deliveries: reports of source hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Delivery"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A report of a source host, as it came; it waits until ``processed_at`` is set.

    ``provider`` is the kind of host, ``event`` the kind of report, ``delivery_id`` the host's own name for it. One that
    is about an account has no repository.
    """

    id: int
    uuid: str
    provider: str
    event: str
    delivery_id: str
    repository_id: int | None
    body: bytes
    received_at: datetime
    attempts: int
    processed_at: datetime | None
    last_error: str | None
