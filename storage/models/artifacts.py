"""Files that jobs keep."""

from __future__ import annotations

import peewee

from storage.models.builds import BuildRow, JobRow
from storage.models.row import Row
from storage.records import Artifact

__all__ = ["ArtifactRow"]


class ArtifactRow(Row, table="artifacts", record=Artifact, joined=("build_uuid", "job_uuid")):
    """A file of a job, named by its ``uuid`` on disk; ``build`` repeats the job's, for an index of lists."""

    build = peewee.ForeignKeyField(BuildRow)
    job = peewee.ForeignKeyField(JobRow)
