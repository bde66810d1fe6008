"""Pipelines, their schedules and secrets."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, UserRow
from storage.models.row import InstantField, Row
from storage.records.pipelines import Pipeline, PipelineTrigger, RegistryLogin, Schedule, Secret


class PipelineRow(Row, table="pipelines", record=Pipeline):
    """A pipeline and the number of its latest build."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    build_count = peewee.IntegerField(column_name="last_number")
    deleted_at = InstantField(null=True)


class FavouriteRow(Row, table="favourites", key=("user", "pipeline")):
    """A pipeline that a user has first in lists."""

    user = peewee.ForeignKeyField(UserRow)
    pipeline = peewee.ForeignKeyField(PipelineRow)


class ScheduleRow(Row, table="schedules", record=Schedule):
    """A schedule; ``next_at`` is null while it is disabled."""

    pipeline = peewee.ForeignKeyField(PipelineRow)


class PipelineTriggerRow(Row, table="pipeline_triggers", record=PipelineTrigger):
    """A pipeline trigger; ``not_before`` is set after a failure."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
    not_before = InstantField(null=True)


class SecretRow(Row, table="secrets", record=Secret):
    """A secret of an organization, or of one of its pipelines; ``value`` is sealed."""

    organization = peewee.ForeignKeyField(OrganizationRow)
    pipeline = peewee.ForeignKeyField(PipelineRow, null=True)
    value = peewee.BlobField()


class RegistryLoginRow(Row, table="registry_logins", record=RegistryLogin):
    """A login of an organization at a registry; ``password`` is sealed."""

    uuid = peewee.TextField()
    organization = peewee.ForeignKeyField(OrganizationRow)
    password = peewee.BlobField()
