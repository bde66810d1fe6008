"""The fields of the API's records of people and money that commands read; others are ignored."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads the annotations

from storage import Role, immutable

__all__ = [
    "BalanceView",
    "BuildUsageView",
    "DayUsageView",
    "InviteView",
    "MemberView",
    "OrganizationView",
    "UsageView",
]


@immutable
class InviteView:
    """The fields of an invite; its token is there only when it is new."""

    id: str
    email: str
    role: Role
    expires_at: datetime
    token: str | None


@immutable
class MemberView:
    """The fields of a member of an organization."""

    user_uuid: str
    email: str
    name: str | None
    role: Role


@immutable
class OrganizationView:
    """The fields of an organization."""

    slug: str
    name: str
    url: str
    created_at: datetime


@immutable
class BalanceView:
    """The credit of an organization."""

    balance_cents: int


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
