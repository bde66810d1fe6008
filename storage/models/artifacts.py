# ruff: noqa: D106 - a model's Meta only names its table
"""Files that jobs keep."""

from __future__ import annotations

import peewee

from storage.models.builds import BuildRow, JobRow
from storage.models.fields import InstantField

__all__ = ["ArtifactRow"]


class ArtifactRow(peewee.Model):
    """A file of a job, named by its ``uuid`` on disk; ``build`` repeats the job's, for an index of lists."""

    id = peewee.AutoField()
    uuid = peewee.TextField()
    build = peewee.ForeignKeyField(BuildRow)
    job = peewee.ForeignKeyField(JobRow)
    path = peewee.TextField()
    mime_type = peewee.TextField()
    file_size = peewee.IntegerField()
    sha256 = peewee.TextField()
    created_at = InstantField()

    class Meta:
        table_name = "artifacts"
