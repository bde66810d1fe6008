"""The configuration section of the service's own log, with its defaults."""

from __future__ import annotations

from typing import Literal

from storage import immutable, setting


@immutable
class JournalSettings:
    """Section ``[journal]``: the service's own log."""

    level: Literal["debug", "info", "warning", "error"] = setting("info", "The lowest level that is logged.", live=True)
