# ruff: noqa: D106 - a model's Meta only names its table
"""Builds, jobs, their edges and attempts."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, PipelineRow
from storage.models.fields import ChoiceField, FlagField, InstantField, JsonField, ListField
from storage.records import BuildState, EdgeKind, JobState

__all__ = ["AttemptRow", "BuildRow", "EdgeRow", "JobRow"]


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
    log_bytes = peewee.IntegerField(null=True)
    logs_expired_at = InstantField(null=True)
    artifact_bytes = peewee.IntegerField(null=True)
    artifacts_expired_at = InstantField(null=True)
    debug = FlagField()

    class Meta:
        table_name = "builds"


class JobRow(peewee.Model):
    """A job; ``organization`` repeats its pipeline's, so that one index serves the queue."""

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
    disk = peewee.TextField(null=True)
    exit_code = peewee.IntegerField(null=True)
    error_code = peewee.TextField(null=True)
    error_message = peewee.TextField(null=True)
    created_at = InstantField()
    scheduled_at = InstantField(null=True)
    not_before = InstantField(null=True)
    queued_at = InstantField(null=True)
    awaited_image = peewee.TextField(null=True)
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
    """One execution of a job, on one lease; ``secrets`` is sealed."""

    job = peewee.ForeignKeyField(JobRow)
    number = peewee.IntegerField()
    state = ChoiceField(JobState)
    created_at = InstantField()
    started_at = InstantField(null=True)
    finished_at = InstantField(null=True)
    exit_code = peewee.IntegerField(null=True)
    error_code = peewee.TextField(null=True)
    secrets = peewee.BlobField(null=True)
    collected_at = InstantField(null=True)
    leased_at = InstantField(null=True)
    exited_at = InstantField(null=True)

    class Meta:
        table_name = "attempts"
        primary_key = peewee.CompositeKey("job", "number")
