"""Schedules: when pipelines are built by the clock, and the actor that builds them then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.schedules.changes import changed_schedule, new_schedule
else:
    __getattr__ = on_first_use(__name__)
