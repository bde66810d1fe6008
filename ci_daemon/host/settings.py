"""The configuration section of the service's own log, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from storage import setting

__all__ = ["JournalSettings"]


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """Section ``[journal]``: the service's own log."""

    level: Literal["debug", "info", "warning", "error"] = setting("info", "The lowest level that is logged.", live=True)
