"""Builds, jobs, their edges, attempts and artifacts, and the keys of requests for builds."""

from __future__ import annotations

import peewee

from storage.models.accounts import OrganizationRow, UserRow
from storage.models.pipelines import PipelineRow
from storage.models.row import FlagField, InstantField, ListField, Row
from storage.records.builds import Artifact, Build, KeptFolder, RequestKey
from storage.records.jobs import Annotation, Attempt, Edge, Job, JobOutputs, JobSummary


class BuildRow(
    Row,
    table="builds",
    record=Build,
    joined=("organization_id", "organization_slug", "pipeline_slug", "default_branch", "planned"),
):
    """A build; ``env`` is sealed."""

    pipeline = peewee.ForeignKeyField(PipelineRow)
    commit = peewee.TextField(column_name="commit_sha", null=True)
    env = peewee.BlobField(null=True)
    pipeline_ir = peewee.TextField(null=True)
    log_bytes = peewee.IntegerField(null=True)
    artifact_bytes = peewee.IntegerField(null=True)
    artifacts_expired_at = InstantField(null=True)
    source_bytes = peewee.IntegerField(null=True)
    told_at = InstantField(null=True)
    told_state = peewee.TextField(null=True)
    changed_files = ListField(null=True)
    concurrency_limit = peewee.IntegerField(null=True)


class BuildUpstreamRow(Row, table="build_upstreams", key=("build",)):
    """The build that another one followed."""

    build = peewee.ForeignKeyField(BuildRow)
    upstream_id = peewee.IntegerField()


class TakenBuildRow(Row, table="taken_builds", key=("build", "source")):
    """The build whose artifacts a build takes, by the pipeline and branch that its file names."""

    build = peewee.ForeignKeyField(BuildRow)
    source = peewee.TextField()
    taken_id = peewee.IntegerField()


class JobRow(Row, table="jobs", record=Job, joined=("depends_on",)):
    """A job; ``organization`` repeats its pipeline's, so that one index serves the queue."""

    build = peewee.ForeignKeyField(BuildRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    disk = peewee.TextField(null=True)
    queued_at = InstantField(null=True)
    yields = peewee.IntegerField()
    turn_at = InstantField(null=True)


class EdgeRow(Row, table="edges", record=Edge, key=("to_job", "from_job")):
    """Job ``to`` waits for job ``from``."""

    from_job = peewee.ForeignKeyField(JobRow, column_name="from_id")
    to_job = peewee.ForeignKeyField(JobRow, column_name="to_id")


class AttemptRow(Row, table="attempts", record=Attempt, key=("job", "number")):
    """One execution of a job, on one lease; ``secrets`` is sealed."""

    job = peewee.ForeignKeyField(JobRow)
    secrets = peewee.BlobField(null=True)
    generated = peewee.TextField(null=True)


class JobOutputsRow(Row, table="job_outputs", record=JobOutputs, key=("job",)):
    """The variables that a job gives to those that need it; ``build`` repeats the job's, for retention."""

    job = peewee.ForeignKeyField(JobRow)
    build = peewee.ForeignKeyField(BuildRow)
    expired = FlagField()


class JobSummaryRow(Row, table="job_summaries", record=JobSummary, key=("job",)):
    """The Markdown that a job says of its build; ``build`` repeats the job's, for the list of a build."""

    job = peewee.ForeignKeyField(JobRow)
    build = peewee.ForeignKeyField(BuildRow)


class AnnotationRow(Row, table="annotations", record=Annotation):
    """A remark of a job on a place in the repository; ``build`` repeats the job's, for a build's list."""

    job = peewee.ForeignKeyField(JobRow)
    build = peewee.ForeignKeyField(BuildRow)


class ArtifactRow(Row, table="artifacts", record=Artifact, joined=("build_uuid", "job_uuid")):
    """A file of a job, named by its ``uuid`` on disk; ``build`` repeats the job's, for an index of lists."""

    build = peewee.ForeignKeyField(BuildRow)
    job = peewee.ForeignKeyField(JobRow)


class KeptFolderRow(Row, table="kept_folders", record=KeptFolder):
    """A folder that jobs keep for later builds."""


class KeyRow(Row, table="idempotency_keys", record=RequestKey, key=("user", "organization", "key")):
    """The build that a request with a key created, and the hash of that request."""

    user = peewee.ForeignKeyField(UserRow)
    organization = peewee.ForeignKeyField(OrganizationRow)
    build = peewee.ForeignKeyField(BuildRow)
    rejected = FlagField()
    created_at = InstantField()
