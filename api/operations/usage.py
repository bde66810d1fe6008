"""An organization's use of VMs and its cost: in sum, by day and by build."""

from __future__ import annotations

from datetime import date, datetime  # noqa: TC003 - the models of records read the annotations
from types import MappingProxyType
from typing import Annotated, Self

import storage
from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.operation import GET, Call, Query, Whole, operation
from api.operations.things import BILLING, ThisMembership
from storage import UsageTooLong, Uuid, example, immutable, showing

_USAGE = f"{BILLING}/usage/{{org}}"
_INSTANT = MappingProxyType({"examples": ["2030-01-01T00:00:00Z"], "format": "date-time", "type": "string"})
_WINDOW = (
    Parameter("from", "The start of the window, with an offset.", _INSTANT, required=True),
    Parameter("to", "The end of the window, exclusive, with an offset.", _INSTANT, required=True),
)
_ERRORS = ("billing_usage_window_invalid",)


@immutable
class UsageResponse:
    """The usage of an organization in a window, by leases and disks of failed jobs, and its cost."""

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    kept_mb_seconds: int
    total_cents: int


@immutable
class UsageSeriesBucketRecord:
    """The usage of the leases that started on one day, in UTC, and of the disks that were kept."""

    date: date
    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    kept_mb_seconds: int
    total_cents: int


@immutable
class UsageBreakdownJobRecord:
    """One lease of a job and its debit, as a negative amount.

    While the lease runs, its duration and end are null and the amount is 0.
    """

    job_id: Uuid
    job_name: str = example("Tests")
    step_key: str
    vm_handle: str = example("4c1f7d52-9a0e-4b8e-8f57-1a3f6f0f2b11")
    provider: str = example("sandbox", "How the VM was made.")
    cpu_count: int
    memory_gb: int
    disk_gb: int
    amount_cents: int
    started_at: datetime
    finished_at: datetime | None
    duration_seconds: int | None

    @classmethod
    def of(cls, lease: storage.LeaseUsage) -> Self:
        """Return the record of a lease."""
        return showing(
            cls,
            lease,
            job_id=lease.job_uuid,
            vm_handle=lease.vm,
            cpu_count=lease.shape.cpu,
            memory_gb=lease.shape.memory_gb,
            disk_gb=lease.shape.disk_gb,
            amount_cents=-lease.amount_cents,
            duration_seconds=lease.seconds,
        )


@immutable
class UsageBreakdownBuildRecord:
    """The leases of one build, oldest first, and the sum of their debits, as a negative amount.

    The slug of a deleted pipeline is null.
    """

    build_id: Uuid
    build_external_id: Uuid
    build_number: int
    pipeline_id: Uuid
    pipeline_name: str = example("Hello")
    pipeline_slug: str | None
    started_at: datetime
    finished_at: datetime | None
    job_count: int
    total_cents: int
    jobs: tuple[UsageBreakdownJobRecord, ...]

    @classmethod
    def of(cls, used: storage.BuildUsage) -> Self:
        """Return the record of a build's leases."""
        build = used.build
        return cls(
            build_id=build.uuid,
            build_external_id=build.external_id,
            build_number=build.number,
            pipeline_id=build.pipeline_uuid,
            pipeline_name=build.pipeline_name,
            pipeline_slug=build.pipeline_slug,
            started_at=used.started_at,
            finished_at=used.finished_at,
            job_count=len(used.leases),
            total_cents=-used.total_cents,
            jobs=tuple(map(UsageBreakdownJobRecord.of, used.leases)),
        )


@immutable
class UsageDiskRecord:
    """A kept disk of a failed job; its size beyond the disk below it is null until it is measured."""

    pipeline_slug: str
    build_number: int
    step_key: str
    job_id: Uuid
    bytes: int | None
    created_at: datetime


UsageByDisk = Annotated[
    list[UsageDiskRecord], Whole("The disks that are kept of failed jobs, newest first.", "UsageDisksResponse")
]
UsageByDay = Annotated[
    list[UsageSeriesBucketRecord], Whole("A bucket for each day of a window, oldest first.", "UsageSeriesResponse")
]
UsageByBuild = Annotated[
    list[UsageBreakdownBuildRecord],
    Whole("The builds of a window; the one whose first lease started last comes first.", "UsageBreakdownResponse"),
]


@operation("getBillingUsage", GET, _USAGE, "The sums.", errors=_ERRORS, parameters=_WINDOW)
def get_usage(call: Call, membership: ThisMembership, query: Query) -> UsageResponse:
    """Sum up the leases that started in a window, and the kept disks of its days."""
    return showing(UsageResponse, call.storage.usage.total(membership.organization.id, *_window(query)))


@operation("getBillingUsageSeries", GET, f"{_USAGE}/series", "The days.", errors=_ERRORS, parameters=_WINDOW)
def list_usage_by_day(call: Call, membership: ThisMembership, query: Query) -> UsageByDay:
    """Sum up the leases that started in a window, day by day in UTC.

    A window has at most 366 days. Days without leases are included.
    """
    try:
        days = call.storage.usage.series(membership.organization.id, *_window(query))
    except UsageTooLong as error:
        raise _invalid(f"from, to: {error}") from None
    return [showing(UsageSeriesBucketRecord, each.usage, date=each.date) for each in days]


@operation("getBillingUsageBreakdown", GET, f"{_USAGE}/breakdown", "The builds.", errors=_ERRORS, parameters=_WINDOW)
def list_usage_by_build(call: Call, membership: ThisMembership, query: Query) -> UsageByBuild:
    """List the leases that started in a window by build, newest builds first.

    A window has at most 10,000 leases. Leases of deleted pipelines are included, and leases that the
    service lost, with the amount 0.
    """
    try:
        builds = call.storage.usage.breakdown(membership.organization.id, *_window(query))
    except UsageTooLong as error:
        raise _invalid(f"from, to: {error}") from None
    return [UsageBreakdownBuildRecord.of(each) for each in builds]


@operation("listKeptDisks", GET, f"{_USAGE}/disks", "The disks.")
def list_kept_disks(call: Call, membership: ThisMembership) -> UsageByDisk:
    """List the disks that are kept of failed jobs, newest first: at most 500 on a service."""
    disks = call.storage.kept_disks.of_organization(membership.organization.id)
    return [showing(UsageDiskRecord, each, job_id=each.job_uuid) for each in disks]


def _window(query: Query) -> tuple[datetime, datetime]:
    """Return the window of a query. Raises ApiError ``billing_usage_window_invalid``."""
    start, end = _moment(query, "from"), _moment(query, "to")
    if end <= start:
        raise _invalid("to: expected a time later than from")
    return start, end


def _moment(query: Query, name: str) -> datetime:
    """Return one end of the window. A ``+`` that was not escaped arrives as a space and is accepted too."""
    from api.fields import moment  # noqa: PLC0415 - pydantic, which a command that only asks needs not

    text = query.given.get(name, "")
    try:
        return moment(text[:11] + text[11:].replace(" ", "+"))
    except ValueError as error:
        raise _invalid(f"{name}: {error}") from None


def _invalid(message: str) -> ApiError:
    return ApiError("billing_usage_window_invalid", message)
