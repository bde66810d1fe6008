# ruff: noqa: D106 - a model's Meta only names its table
"""The tables as peewee sees them, bound to no database. The migrations make them; a test compares the two."""

from __future__ import annotations

from json import loads
from typing import TYPE_CHECKING

import peewee

from storage.instants import from_micros
from storage.records import (
    BuildState,
    EdgeKind,
    JobState,
    LeaseState,
    LedgerSource,
    Role,
    Visibility,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

__all__ = [
    "AttemptRow",
    "BuildRow",
    "EdgeRow",
    "JobRow",
    "LeaseRow",
    "LedgerRow",
    "MembershipRow",
    "OrganizationRow",
    "PipelineRow",
    "SnapshotRow",
    "TokenRow",
    "UserRow",
]


class InstantField(peewee.BigIntegerField):
    """Microseconds since the epoch; an aware datetime outside."""

    read = staticmethod(from_micros)


class FlagField(peewee.IntegerField):
    """0 or 1; a bool outside."""

    read = bool


class JsonField(peewee.TextField):
    """A JSON object."""

    read = staticmethod(loads)


class ListField(peewee.TextField):
    """A JSON array of strings; a tuple outside."""

    @staticmethod
    def read(text: str) -> tuple[str, ...]:
        return tuple(loads(text))


class ChoiceField(peewee.TextField):
    """One value of an enum."""

    read: Callable[[str], StrEnum]

    def __init__(self, choices: type[StrEnum]) -> None:
        super().__init__()
        self.by_value = {choice.value: choice for choice in choices}
        self.read = self.by_value.__getitem__


class OrganizationRow(peewee.Model):
    """An organization and the balance that a trigger keeps."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    slug = peewee.TextField()
    name = peewee.TextField()
    url = peewee.TextField()
    balance_cents = peewee.IntegerField()
    created_at = InstantField()

    class Meta:
        table_name = "organizations"


class UserRow(peewee.Model):
    """A person."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    email = peewee.TextField()
    name = peewee.TextField()
    personal_organization = peewee.ForeignKeyField(OrganizationRow)
    created_at = InstantField()

    class Meta:
        table_name = "users"


class TokenRow(peewee.Model):
    """A bearer token, hashed: a personal API key or a session."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    user = peewee.ForeignKeyField(UserRow)
    kind = peewee.TextField()
    hash = peewee.BlobField()
    description = peewee.TextField()
    created_at = InstantField()
    expires_at = InstantField(null=True)
    last_used_at = InstantField(null=True)

    class Meta:
        table_name = "tokens"


class MembershipRow(peewee.Model):
    """Who belongs to which organization, as what."""

    user = peewee.ForeignKeyField(UserRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    role = ChoiceField(Role)
    created_at = InstantField()

    class Meta:
        table_name = "memberships"
        primary_key = peewee.CompositeKey("user", "organization")


class PipelineRow(peewee.Model):
    """A pipeline and the number of its latest build."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    slug = peewee.TextField()
    name = peewee.TextField()
    repository = peewee.TextField()
    default_branch = peewee.TextField()
    visibility = ChoiceField(Visibility)
    allow_manual = FlagField()
    description = peewee.TextField(null=True)
    repo_name = peewee.TextField(null=True)
    source_slug = peewee.TextField(null=True)
    fail_fast = FlagField()
    last_number = peewee.IntegerField()
    created_at = InstantField()

    class Meta:
        table_name = "pipelines"


class BuildRow(peewee.Model):
    """A build; ``env`` is sealed."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    external_id = peewee.TextField()
    pipeline = peewee.ForeignKeyField(PipelineRow)
    number = peewee.IntegerField()
    state = ChoiceField(BuildState)
    branch = peewee.TextField(null=True)
    commit_sha = peewee.TextField(null=True)
    message = peewee.TextField(null=True)
    source = peewee.TextField()
    timeout_seconds = peewee.IntegerField(null=True)
    cancel_requested = FlagField()
    has_source = FlagField()
    source_sha256 = peewee.TextField()
    created_at = InstantField()
    scheduled_at = InstantField(null=True)
    started_at = InstantField(null=True)
    finished_at = InstantField(null=True)
    error_code = peewee.TextField(null=True)
    error_message = peewee.TextField(null=True)
    env = peewee.BlobField(null=True)
    pipeline_ir = peewee.TextField(null=True)

    class Meta:
        table_name = "builds"


class JobRow(peewee.Model):
    """A job; ``organization`` repeats its pipeline's, so that the queue is read by one index."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    build = peewee.ForeignKeyField(BuildRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    position = peewee.IntegerField()
    state = ChoiceField(JobState)
    attempt = peewee.IntegerField()
    step_key = peewee.TextField()
    name = peewee.TextField()
    image = peewee.TextField(null=True)
    cpu = peewee.IntegerField()
    memory_gb = peewee.IntegerField()
    disk_gb = peewee.IntegerField()
    network = FlagField()
    timeout_seconds = peewee.IntegerField(null=True)
    retry_policy = JsonField(null=True)
    soft_fail_policy = JsonField(null=True)
    soft_failed = FlagField()
    artifacts = ListField()
    secrets = ListField()
    cache_policy = peewee.TextField()
    cache_key = peewee.TextField(null=True)
    cache_hit = FlagField()
    exit_code = peewee.IntegerField(null=True)
    error_code = peewee.TextField(null=True)
    error_message = peewee.TextField(null=True)
    created_at = InstantField()
    scheduled_at = InstantField(null=True)
    started_at = InstantField(null=True)
    finished_at = InstantField(null=True)
    env = JsonField()
    command = peewee.TextField()

    class Meta:
        table_name = "jobs"


class EdgeRow(peewee.Model):
    """Job ``to`` waits for job ``from``."""

    from_job = peewee.ForeignKeyField(JobRow, column_name="from_id")
    to_job = peewee.ForeignKeyField(JobRow, column_name="to_id")
    kind = ChoiceField(EdgeKind)
    continue_on_failure = FlagField()

    class Meta:
        table_name = "edges"
        primary_key = peewee.CompositeKey("to_job", "from_job")


class AttemptRow(peewee.Model):
    """One try at a job, on one lease."""

    job = peewee.ForeignKeyField(JobRow)
    number = peewee.IntegerField()
    state = ChoiceField(JobState)
    created_at = InstantField()
    started_at = InstantField(null=True)
    finished_at = InstantField(null=True)
    exit_code = peewee.IntegerField(null=True)
    error_code = peewee.TextField(null=True)

    class Meta:
        table_name = "attempts"
        primary_key = peewee.CompositeKey("job", "number")


class LeaseRow(peewee.Model):
    """One VM."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow, null=True)
    job = peewee.ForeignKeyField(JobRow, null=True)
    attempt = peewee.IntegerField()
    provider = peewee.TextField()
    image = peewee.TextField(null=True)
    cpu = peewee.IntegerField()
    memory_gb = peewee.IntegerField()
    disk_gb = peewee.IntegerField()
    network = FlagField()
    state = ChoiceField(LeaseState)
    created_at = InstantField()
    started_at = InstantField(null=True)
    finished_at = InstantField(null=True)
    amount_cents = peewee.IntegerField()

    class Meta:
        table_name = "leases"


class LedgerRow(peewee.Model):
    """One entry of the ledger; never changed, never deleted."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    amount_cents = peewee.IntegerField()
    source = ChoiceField(LedgerSource)
    description = peewee.TextField(null=True)
    job = peewee.ForeignKeyField(JobRow, null=True)
    created_at = InstantField()

    class Meta:
        table_name = "ledger_entries"


class SnapshotRow(peewee.Model):
    """A job's disk, kept by a provider."""

    id = peewee.AutoField()
    name = peewee.TextField()
    job = peewee.ForeignKeyField(JobRow)
    provider = peewee.TextField()
    created_at = InstantField()

    class Meta:
        table_name = "snapshots"
