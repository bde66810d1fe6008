"""Leased VMs, their snapshots, VMs that are held, disks in the cache, and the renders that lease VMs."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, TokenRow, UserRow
from storage.models.billing import LedgerRow
from storage.models.builds import BuildRow, JobRow
from storage.models.pipelines import PipelineRow
from storage.models.row import InstantField, Row
from storage.records.builds import Render, Rendered
from storage.records.leases import CacheEntry, ForkTerminal, Hold, KeptDisk, Lease, Preview, Snapshot
from storage.records.pipelines import Declaration


class LeaseRow(Row, table="leases", record=Lease):
    """The lease of one VM."""

    organization = peewee.ForeignKeyField(OrganizationRow, null=True)
    job = peewee.ForeignKeyField(JobRow, null=True)
    build = peewee.ForeignKeyField(BuildRow, null=True)
    boot = peewee.TextField(null=True)
    started_uptime = peewee.BigIntegerField(null=True)
    killed_by = peewee.TextField(null=True)
    seen_at = InstantField(null=True)


class SnapshotRow(Row, table="snapshots", record=Snapshot):
    """A job's disk, kept by a provider."""

    job = peewee.ForeignKeyField(JobRow)


class HoldRow(Row, table="holds", record=Hold, joined=("vm",)):
    """The hold of one VM, from its job's end to the VM's end."""

    lease = peewee.ForeignKeyField(LeaseRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    job = peewee.ForeignKeyField(JobRow)
    entry = peewee.ForeignKeyField(LedgerRow, null=True)


_OF_HOLD = ("uuid", "lease_id", "organization_id", "job_id", "opened_by", "started_at", "until", "finished_at")


class TerminalRow(Row, table="terminals", record=ForkTerminal, joined=_OF_HOLD):
    """A terminal on a fork of a job's disk."""

    hold = peewee.ForeignKeyField(HoldRow, primary_key=True)
    user = peewee.ForeignKeyField(UserRow)
    token = peewee.ForeignKeyField(TokenRow, null=True)


class PreviewRow(Row, table="previews", record=Preview, joined=("holding",)):
    """A passed job's disk that serves a port."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    pipeline = peewee.ForeignKeyField(PipelineRow)
    job = peewee.ForeignKeyField(JobRow)
    hold = peewee.ForeignKeyField(HoldRow, null=True)


class KeptDiskRow(Row, table="kept_disks", record=KeptDisk, joined=("bytes",)):
    """The disk of a failed job that is kept."""

    snapshot = peewee.TextField(primary_key=True)
    organization = peewee.ForeignKeyField(OrganizationRow)
    pipeline = peewee.ForeignKeyField(PipelineRow)
    charged_at = InstantField(null=True)


class DiskDayRow(Row, table="disk_days", key=("organization", "day")):
    """The kept disks of an organization on one day."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    day = peewee.IntegerField()
    mb_seconds = peewee.IntegerField()
    micro_cents = peewee.IntegerField()
    amount_cents = peewee.IntegerField(null=True)
    entry = peewee.ForeignKeyField(LedgerRow, null=True)


_JOINED = ("organization_slug", "pipeline_slug", "build_number", "job_name", "job_id", "bytes", "provider")


class CacheRow(Row, table="cache_entries", record=CacheEntry, joined=_JOINED):
    """A job's disk: the snapshot's name under the name by which later builds find it."""

    pipeline = peewee.ForeignKeyField(PipelineRow)


class RenderRow(Row, table="renders", record=Render, joined=("organization_id",)):
    """The render of a build."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    lease = peewee.ForeignKeyField(LeaseRow, null=True)
    created_at = InstantField()


class RunnerTokenRow(Row, table="runner_tokens"):
    """A token with which a VM may fetch the source of one build, hashed."""

    build = peewee.ForeignKeyField(BuildRow, primary_key=True)
    hash = peewee.BlobField()


class DeclarationRow(Row, table="declarations", record=Declaration):
    """The declaration of a pipeline in its repository's files."""

    pipeline = peewee.ForeignKeyField(PipelineRow, primary_key=True)


class RenderedRow(Row, table="rendered", record=Rendered):
    """The cached result of rendering an archive's pipeline files."""

    name = peewee.BlobField()
    expires_at = InstantField()
