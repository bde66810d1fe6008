"""The look of everything on a terminal: tables, times, states, and pictures that are drawn again."""

from __future__ import annotations

__all__: list[str] = []
