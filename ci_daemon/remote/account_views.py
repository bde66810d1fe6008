"""The fields of the API's records of people and money that commands read; others are ignored."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotations

from storage import immutable

__all__ = [
    "BuildUsageView",
    "DayUsageView",
    "UsageView",
]


@immutable
class UsageView:
    """VM time in a window, and its price."""

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int


@immutable
class DayUsageView(UsageView):
    """VM time of one day."""

    date: str


@immutable
class BuildUsageView:
    """VM time of one build, whose price is negative, as in the ledger."""

    pipeline_name: str
    pipeline_slug: str | None
    build_number: int
    started_at: datetime
    finished_at: datetime | None
    job_count: int
    total_cents: int
