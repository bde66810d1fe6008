"""An organization's use of VMs and its cost: in sum, by day and by build."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter, ValidationError, WithJsonSchema

import storage
from api.bodies import answer
from api.errors.responses import ApiError
from api.fields import Moment, StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, Parameter, operation
from storage import JsonModel, Storage, UsageTooLong

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access

__all__ = [
    "UsageBreakdownBuildRecord",
    "UsageBreakdownJobRecord",
    "UsageBreakdownResponse",
    "UsageResource",
    "UsageResponse",
    "UsageSeriesBucketRecord",
    "UsageSeriesResponse",
]

_MOMENT = TypeAdapter[datetime](Moment)
_WINDOW = (
    Parameter("from", "The start of the window, with an offset.", _MOMENT.json_schema(), required=True),
    Parameter("to", "The end of the window, exclusive, with an offset.", _MOMENT.json_schema(), required=True),
)
_ERRORS = ("organization_not_found", "billing_usage_window_invalid")

_Date = Annotated[str, WithJsonSchema({"type": "string", "format": "date", "examples": ["2026-01-01"]})]


class UsageResponse(StoredRecord):
    """The usage of an organization's leases in a window, and its cost."""

    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int

    @classmethod
    def of(cls, usage: storage.Usage) -> UsageResponse:
        """Return the record of a stored sum."""
        return cls.showing(usage)


class UsageSeriesBucketRecord(StoredRecord):
    """The usage of the leases that started on one day, in UTC."""

    date: _Date
    cpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int
    total_cents: int

    @classmethod
    def of(cls, day: storage.DayUsage) -> UsageSeriesBucketRecord:
        """Return the record of a stored day."""
        return cls.showing(day.usage, date=day.date.isoformat())


class UsageBreakdownJobRecord(StoredRecord):
    """One lease of a job and its debit, as a negative amount.

    While the lease runs, its duration and end are null and the amount is 0.
    """

    job_id: Uuid
    job_name: Annotated[str, Field(examples=["Tests"])]
    step_key: str
    vm_handle: Annotated[str, Field(examples=["4c1f7d52-9a0e-4b8e-8f57-1a3f6f0f2b11"])]
    provider: Annotated[str, Field(examples=["sandbox"], description="How the VM was made.")]
    cpu_count: int
    memory_gb: int
    disk_gb: int
    amount_cents: int
    started_at: Timestamp
    finished_at: Timestamp | None
    duration_seconds: int | None

    @classmethod
    def of(cls, lease: storage.LeaseUsage) -> UsageBreakdownJobRecord:
        """Return the record of a lease."""
        return cls.showing(
            lease,
            job_id=lease.job_uuid,
            vm_handle=lease.vm,
            cpu_count=lease.shape.cpu,
            memory_gb=lease.shape.memory_gb,
            disk_gb=lease.shape.disk_gb,
            amount_cents=-lease.amount_cents,
            duration_seconds=lease.seconds,
        )


class UsageBreakdownBuildRecord(StoredRecord):
    """The leases of one build, oldest first, and the sum of their debits, as a negative amount.

    The slug of a deleted pipeline is null.
    """

    build_id: Uuid
    build_external_id: Uuid
    build_number: int
    pipeline_id: Uuid
    pipeline_name: Annotated[str, Field(examples=["Hello"])]
    pipeline_slug: str | None
    started_at: Timestamp
    finished_at: Timestamp | None
    job_count: int
    total_cents: int
    jobs: list[UsageBreakdownJobRecord]

    @classmethod
    def of(cls, used: storage.BuildUsage) -> UsageBreakdownBuildRecord:
        """Return the record of a build's leases."""
        return cls.showing(
            used,
            build_id=used.build.uuid,
            build_external_id=used.build.external_id,
            build_number=used.build.number,
            pipeline_id=used.build.pipeline_uuid,
            pipeline_name=used.build.pipeline_name,
            pipeline_slug=used.build.pipeline_slug,
            job_count=len(used.leases),
            total_cents=-used.total_cents,
            jobs=[UsageBreakdownJobRecord.of(lease) for lease in used.leases],
        )


class UsageSeriesResponse(JsonModel):
    """A bucket for each day of a window, oldest first."""

    data: list[UsageSeriesBucketRecord]


class UsageBreakdownResponse(JsonModel):
    """The builds of a window; the one whose first lease started last comes first."""

    data: list[UsageBreakdownBuildRecord]


class UsageResource:
    """``/api/v0/billing/usage/{org}`` and the paths below it.

    A lease belongs to the window in which it started.
    """

    def __init__(self, storage: Storage, access: Access) -> None:
        self._usage = storage.usage
        self._access = access

    @operation("getBillingUsage", Answer(200, "The sums.", UsageResponse), errors=_ERRORS, parameters=_WINDOW)
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Sum up the leases that started in a window."""
        organization = self._access.member(req, org).organization
        answer(resp, UsageResponse.of(self._usage.total(organization.id, *_window(req))))

    @operation(
        "getBillingUsageSeries", Answer(200, "The days.", UsageSeriesResponse), errors=_ERRORS, parameters=_WINDOW
    )
    def on_get_series(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Sum up the leases that started in a window, day by day in UTC.

        A window has at most 366 days. Days without leases are included.
        """
        organization = self._access.member(req, org).organization
        try:
            days = self._usage.series(organization.id, *_window(req))
        except UsageTooLong as error:
            raise _invalid(f"from, to: {error}") from None
        answer(resp, UsageSeriesResponse(data=[UsageSeriesBucketRecord.of(day) for day in days]))

    @operation(
        "getBillingUsageBreakdown",
        Answer(200, "The builds.", UsageBreakdownResponse),
        errors=_ERRORS,
        parameters=_WINDOW,
    )
    def on_get_breakdown(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the leases that started in a window by build, newest builds first.

        A window has at most 10,000 leases. Leases of deleted pipelines are included, and leases that the
        service lost, with the amount 0.
        """
        organization = self._access.member(req, org).organization
        try:
            builds = self._usage.breakdown(organization.id, *_window(req))
        except UsageTooLong as error:
            raise _invalid(f"from, to: {error}") from None
        answer(resp, UsageBreakdownResponse(data=[UsageBreakdownBuildRecord.of(build) for build in builds]))


def _window(req: falcon.Request) -> tuple[datetime, datetime]:
    """Parse the usage window. Raises ApiError ``billing_usage_window_invalid``."""
    start, end = _moment(req, "from"), _moment(req, "to")
    if end <= start:
        raise _invalid("to: expected a time later than from")
    return start, end


def _moment(req: falcon.Request, name: str) -> datetime:
    """Parse one end of the window. A ``+`` that was not escaped arrives as a space and is accepted too."""
    text = req.get_param(name) or ""
    try:
        return _MOMENT.validate_python(text[:11] + text[11:].replace(" ", "+"))
    except ValidationError:
        raise _invalid(f"{name}: expected an ISO 8601 time with an offset, such as 2026-01-01T00:00:00Z") from None


def _invalid(message: str) -> ApiError:
    return ApiError("billing_usage_window_invalid", message)
