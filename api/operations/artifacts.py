"""Artifacts of jobs: lists, and their files (wire-decisions.md, "Logs and artifacts").

Only members read artifacts: of a public pipeline only builds, jobs and logs are public.
"""

from __future__ import annotations

import logging
from dataclasses import field
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.http.files import StoredFile
from api.operations.operation import GET, Call, Download, Span, operation
from api.operations.things import BUILD, JOB, ThisBuild, ThisJob, job_in_build
from storage import Artifact, JobState, Page, example, immutable, showing

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Build, Job, Storage, Uuid

_log = logging.getLogger(__name__)

_LISTED = "A page of artifacts."


@immutable
class ArtifactRecord:
    """A file that a job kept; ``path`` is relative to the workspace, ``mime_type`` follows from the name."""

    uuid: Uuid
    job_id: Uuid
    path: str
    filename: str
    mime_type: str
    file_size: int
    sha256: str
    created_at: datetime
    download_url: str


@immutable
class SignatureRecord:
    """A signature, RSASSA-PKCS1-v1_5 with SHA-256, by the key ``keyid``; ``sig`` is in base64."""

    keyid: str = example("0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e")
    sig: str = example("ZCp0q4rT…")


@immutable
class EnvelopeRecord:
    """A DSSE envelope: ``payload`` is the statement in base64."""

    payload_type: str = field(metadata={"shown_as": "payloadType", "example": "application/vnd.in-toto+json"})
    payload: str = example("eyJfdHlwZSI6…")
    signatures: tuple[SignatureRecord, ...]


@operation("listBuildArtifacts", GET, f"{BUILD}/artifacts", _LISTED)
def list_build_artifacts(call: Call, build: ThisBuild, span: Span) -> Page[ArtifactRecord]:
    """List a build's artifacts by job, in the order in which the jobs ended."""
    return page_of(call, build, call.storage.artifacts.page_of_build(build.id, span.limit, span.after))


@operation("listJobArtifacts", GET, f"{JOB}/artifacts", _LISTED)
def list_job_artifacts(call: Call, build: ThisBuild, job: ThisJob, span: Span) -> Page[ArtifactRecord]:
    """List a job's artifacts.

    They appear when the job's command has ended, before the job itself has.
    """
    return page_of(call, build, call.storage.artifacts.page_of_job(job.id, span.limit, span.after))


@operation(
    "downloadArtifact",
    GET,
    f"{BUILD}/artifacts/{{id}}/download",
    "The file.",
    errors=("artifact_not_found", "artifact_expired"),
)
def download_artifact(call: Call, build: ThisBuild, id: str) -> Download:
    """Download an artifact, or a range of it.

    The type is always `application/octet-stream`, an attachment, so that a browser saves the file and never shows
    it as a page.
    """
    artifact, file = stored_artifact(call.storage, build, id)
    return Download(file, artifact.file_size, artifact.filename, artifact.sha256)


@operation(
    "getArtifactProvenance",
    GET,
    f"{BUILD}/artifacts/{{id}}/provenance",
    "The envelope.",
    errors=("artifact_not_found", "artifact_expired", "artifact_unproven"),
)
def get_artifact_provenance(call: Call, build: ThisBuild, id: str) -> EnvelopeRecord:
    """Get a signed statement of how an artifact was made: SLSA's provenance v1 in a DSSE envelope.

    It is signed as it is asked for, by a key of `/.well-known/provenance-keys.json`, and stays valid.
    """
    from api.builds import provenance  # noqa: PLC0415 - few ask for it

    artifact, _ = stored_artifact(call.storage, build, id)
    job = job_in_build(call.storage, build, artifact.job_uuid)
    if job.taken_from is not None:
        build, job = _maker(call.storage, build, job, artifact)
    lease = call.storage.leases.of_job(job.id)
    pipeline = call.storage.pipelines.by_id(build.pipeline_id)
    if job.state is not JobState.PASSED or lease is None or pipeline is None:
        raise ApiError("artifact_unproven", f"the job {job.step_key} of this artifact is {job.state}")
    statement = provenance.statement_of(
        build,
        job,
        artifact,
        service=call.service.url,
        repository=pipeline.repository,
        runner=lease.provider,
        image=lease.image,
    )
    payload, name, signature = provenance.signed(statement, call.storage.issuer_keys.sign)
    return EnvelopeRecord(provenance.PAYLOAD_TYPE, payload, (SignatureRecord(name, signature),))


def _maker(storage: Storage, build: Build, job: Job, artifact: Artifact) -> tuple[Build, Job]:
    """Return the job of an earlier build that made an artifact, as long as that has the same file."""
    from actors import ran_in  # noqa: PLC0415 - few ask for it

    found = ran_in(storage, build, job)
    made = () if found is None else storage.artifacts.of_job(found[1].id)
    if found is None or (artifact.path, artifact.sha256) not in {(each.path, each.sha256) for each in made}:
        why = f"build {job.taken_from}, whose job {job.step_key} made this artifact, has no such file any more"
        raise ApiError("artifact_unproven", why)
    return found


def stored_artifact(storage: Storage, build: Build, uuid: str) -> tuple[Artifact, StoredFile]:
    """Return a build's artifact and its file. Raises ApiError if it never existed, expired or was lost."""
    expired_at = storage.artifacts.expired_at(build.id)
    if expired_at is not None:
        when = expired_at.date().isoformat()
        raise ApiError(
            "artifact_expired", f"the artifacts of this build were deleted on {when}, when their retention ended"
        )
    artifact = storage.artifacts.find(build.id, uuid)
    if artifact is None:
        raise ApiError.not_found("artifact", uuid)
    return artifact, file_of(storage, artifact)


def file_of(storage: Storage, artifact: Artifact) -> StoredFile:
    """Return the file of an artifact. Raises ApiError if it was lost."""
    file = StoredFile(storage.artifacts.path(artifact))
    if file.size() != artifact.file_size:
        _log.error("artifact %s is missing on the disk, or incomplete: %s", artifact.uuid, file.path)
        raise ApiError("artifact_expired", "the file is missing on the service's disk, or incomplete")
    return file


def page_of(call: Call, build: Build, page: Page[Artifact]) -> Page[ArtifactRecord]:
    """Return the records of artifacts."""
    names = {"org": build.organization_slug, "pipeline": build.pipeline_slug, "number": build.number}
    above = f"{call.service.url}{BUILD.format_map(names)}/artifacts"

    def record(artifact: Artifact) -> ArtifactRecord:
        url = f"{above}/{artifact.uuid}/download"
        return showing(ArtifactRecord, artifact, job_id=artifact.job_uuid, download_url=url)

    return Page(tuple(map(record, page.rows)), page.next_key)
