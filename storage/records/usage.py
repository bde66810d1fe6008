"""Usage of organizations: sums over leases, and the leases of each build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import date, datetime

    from storage.records.jobs import Shape


@immutable
class Usage:
    """The usage of an organization's leases in a window; ``total_cents`` is positive."""

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            self.cpu_seconds + other.cpu_seconds,
            self.memory_gb_seconds + other.memory_gb_seconds,
            self.disk_gb_seconds + other.disk_gb_seconds,
            self.total_cents + other.total_cents,
        )


@immutable
class DayUsage:
    """The usage of the leases that started on one day, in UTC."""

    date: date
    usage: Usage


@immutable
class LeaseUsage:
    """One lease of a job, from its command's start, or one hold. One that still runs has no end or price."""

    vm: str
    provider: str
    shape: Shape
    amount_cents: int
    started_at: datetime
    finished_at: datetime | None
    job_uuid: str
    job_name: str
    step_key: str

    @property
    def seconds(self) -> int | None:
        """Whole seconds from start to end; None while it runs."""
        if self.finished_at is None:
            return None
        lasted = self.finished_at - self.started_at
        return max(0, lasted.days * 86_400 + lasted.seconds)


@immutable
class UsedBy:
    """The names of a build.

    ``pipeline_slug`` is None if the pipeline is deleted, because another pipeline may have its slug now.
    """

    uuid: str
    external_id: str
    number: int
    pipeline_uuid: str
    pipeline_name: str
    pipeline_slug: str | None


@immutable
class BuildUsage:
    """The leases of one build that started in a window, oldest first; at least one."""

    build: UsedBy
    leases: tuple[LeaseUsage, ...]

    @property
    def total_cents(self) -> int:
        """The total price of the leases."""
        return sum(lease.amount_cents for lease in self.leases)

    @property
    def started_at(self) -> datetime:
        """The earliest start of a lease."""
        return self.leases[0].started_at

    @property
    def finished_at(self) -> datetime | None:
        """The latest end of a lease; None if none has ended."""
        return max((lease.finished_at for lease in self.leases if lease.finished_at is not None), default=None)
