"""Accounts at source hosts, connected repositories, their deliveries, and the origins of builds."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow
from storage.models.pipelines import PipelineRow
from storage.models.row import InstantField, Row
from storage.records.source_hosts import (
    BuildOrigin,
    CommitCheck,
    Delivery,
    HostConnection,
    PushOutcome,
    QueuedMerge,
    Repository,
    RepositoryHead,
    SkippedPipeline,
)


class HostConnectionRow(Row, table="host_connections", record=HostConnection):
    """An account at a source host."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    credential = peewee.BlobField(null=True)


class RepositoryRow(Row, table="repositories", record=Repository):
    """A git repository of an organization."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    connection = peewee.ForeignKeyField(HostConnectionRow, null=True)
    token_hash = peewee.BlobField(null=True)


class RepositoryHeadRow(Row, table="repository_heads", record=RepositoryHead, key=("repository", "ref")):
    """The commit of a branch or tag that was looked at last."""

    repository = peewee.ForeignKeyField(RepositoryRow)
    commit = peewee.TextField(column_name="commit_sha")


class RepositoryCredentialRow(Row, table="repository_credentials"):
    """The password or deploy key of a repository."""

    repository = peewee.ForeignKeyField(RepositoryRow, primary_key=True)
    username = peewee.TextField(null=True)
    public_key = peewee.TextField(null=True)
    host_key = peewee.TextField(null=True)
    secret = peewee.BlobField()
    of_organization = peewee.IntegerField()


class OrganizationKeyRow(Row, table="organization_keys"):
    """The deploy key of an organization; ``secret`` is its private half, sealed."""

    organization = peewee.ForeignKeyField(OrganizationRow, primary_key=True)
    public_key = peewee.TextField()
    secret = peewee.BlobField()
    created_at = InstantField()


class DeliveryRow(Row, table="deliveries", record=Delivery):
    """A report of a host, as it came."""

    repository = peewee.ForeignKeyField(RepositoryRow, null=True)
    retry_at = peewee.IntegerField(null=True)


class PushOutcomeRow(Row, table="push_outcomes", record=PushOutcome):
    """The outcome of a push or pull request."""

    repository = peewee.ForeignKeyField(RepositoryRow)
    commit = peewee.TextField(column_name="commit_sha")


class SkippedPipelineRow(Row, table="skipped_pipelines", record=SkippedPipeline):
    """A pipeline that is not built for a commit."""

    repository = peewee.ForeignKeyField(RepositoryRow)
    pipeline = peewee.ForeignKeyField(PipelineRow)
    commit = peewee.TextField(column_name="commit_sha")
    recorded_at = InstantField()
    report_at = InstantField(null=True)
    report_error = peewee.TextField(null=True)


class CommitCheckRow(Row, table="commit_checks", record=CommitCheck):
    """The state of all pipelines of a commit."""

    repository = peewee.ForeignKeyField(RepositoryRow)
    commit = peewee.TextField(column_name="commit_sha")
    recorded_at = InstantField()
    report_at = InstantField(null=True)
    report_error = peewee.TextField(null=True)


class QueuedMergeRow(Row, table="merge_queue", record=QueuedMerge):
    """An entry of a merge queue."""

    repository = peewee.ForeignKeyField(RepositoryRow)


class BuildOriginRow(Row, table="build_origins", record=BuildOrigin):
    """The push or pull request that a build was made for."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    repository = peewee.ForeignKeyField(RepositoryRow, null=True)
