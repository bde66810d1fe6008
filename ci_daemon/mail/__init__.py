"""E-mail: the settings, and the thread that gives letters to a mail server."""

from __future__ import annotations

__all__: list[str] = []
