"""E-mail: the settings, and the thread that sends letters."""

from __future__ import annotations

__all__: list[str] = []
