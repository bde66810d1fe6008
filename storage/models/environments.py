"""Environments, and the gates of jobs that deploy to them."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow
from storage.models.builds import JobRow
from storage.models.row import Row
from storage.records.environments import Environment, Gate


class EnvironmentRow(Row, table="environments", record=Environment):
    """An environment of an organization."""

    organization = peewee.ForeignKeyField(OrganizationRow)


class GateRow(Row, table="gates", record=Gate, key=("job",)):
    """The gate of a job that is ready for all else."""

    job = peewee.ForeignKeyField(JobRow)
