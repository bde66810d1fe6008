"""Users, organizations, and what belongs to them."""

from __future__ import annotations

__all__: list[str] = []
