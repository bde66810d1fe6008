"""Instants in the format of the API (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def timestamp(at: datetime) -> str:
    """Return an aware UTC instant as ISO 8601 with six digits and a Z."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
