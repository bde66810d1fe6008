"""Output on a terminal: tables, times, states, and live screens."""

from __future__ import annotations
