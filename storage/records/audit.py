"""What operators did by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["AuditEntry"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act of an operator: ``actor`` is a user of the host, ``action`` what was done, ``subject`` to what."""

    id: int
    uuid: str
    at: datetime
    actor: str
    action: str
    subject: str
    note: str
