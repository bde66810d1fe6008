"""E-mail: the settings, and the thread that sends messages."""

from __future__ import annotations

__all__: list[str] = []
