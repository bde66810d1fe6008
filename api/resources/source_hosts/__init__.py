"""Source hosts: accounts and repositories at them that an organization has connected."""

from __future__ import annotations

__all__: list[str] = []
