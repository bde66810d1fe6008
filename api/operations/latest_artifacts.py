"""Artifacts by a stable address: those of the latest build of a branch that passed.

They are for members, as all artifacts are, unless the pipeline has public ones: then anybody reads those of builds that
are neither of a fork nor of a pull request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.artifacts import ArtifactRecord, file_of, page_of
from api.operations.operation import GET, READERS, Call, Download, Query, Span, operation
from api.operations.things import PIPELINE, PublishedPipeline, is_member
from storage import Artifact, Page, showing

if TYPE_CHECKING:
    from api.http.files import StoredFile
    from storage import Build, Pipeline, Storage

_LATEST = f"{PIPELINE}/latest-artifacts"
_BRANCH = Parameter("branch", "The branch; by default the pipeline's default branch.", {"type": "string"})
_PATH = Parameter(
    "path",
    "The path of the file in the workspace.",
    {"type": "string", "examples": ["dist/report.txt"]},
    required=True,
)
_STEP = Parameter(
    "step", "The key of the step that kept it, if several kept this path; by default the last one.", {"type": "string"}
)
_ERRORS = ("build_not_found", "artifact_expired")


@operation(
    "listLatestArtifacts", GET, _LATEST, "A page of artifacts.", errors=_ERRORS, parameters=(_BRANCH,), callers=READERS
)
def list_latest_artifacts(call: Call, pipeline: PublishedPipeline, span: Span, query: Query) -> Page[ArtifactRecord]:
    """List the artifacts of the latest build of a branch that passed.

    There is one address for a branch, whatever was built since. Of a pipeline with public artifacts nobody need say
    who asks; its builds of forks and pull requests are for members.
    """
    build = _latest_build(call, pipeline, query)
    page = call.storage.artifacts.page_of_build(build.id, span.limit, span.after)
    return page_of(call, build, page) if _is_to_member(call, pipeline) else _public_page(call, build, page)


@operation(
    "downloadLatestArtifact",
    GET,
    f"{_LATEST}/file",
    "The file.",
    errors=(*_ERRORS, "artifact_not_found"),
    parameters=(_PATH, _BRANCH, _STEP),
    callers=READERS,
)
def download_latest_artifact(call: Call, pipeline: PublishedPipeline, query: Query) -> Download:
    """Download an artifact of the latest build of a branch that passed, or a range of it.

    The type is always `application/octet-stream`, an attachment. Of a pipeline with public artifacts nobody need say
    who asks.
    """
    build = _latest_build(call, pipeline, query)
    artifact, file = artifact_at(call.storage, build, query.given["path"], query.given["step"])
    return Download(file, artifact.file_size, artifact.filename, artifact.sha256)


def _public_page(call: Call, build: Build, page: Page[Artifact]) -> Page[ArtifactRecord]:
    """Return the records of artifacts, with addresses that are good for everybody."""
    jobs = {job.uuid: job.step_key for job in call.storage.jobs.of_build(build.id)}
    address = _LATEST.format_map({"org": build.organization_slug, "pipeline": build.pipeline_slug})

    def record(artifact: Artifact) -> ArtifactRecord:
        query = {"path": artifact.path, "branch": build.branch or "", "step": jobs[artifact.job_uuid]}
        url = f"{call.service.url}{address}/file?{urlencode(query)}"
        return showing(ArtifactRecord, artifact, job_id=artifact.job_uuid, download_url=url)

    return Page(tuple(map(record, page.rows)), page.next_key)


def _is_to_member(call: Call, pipeline: Pipeline) -> bool:
    return is_member(call.storage, call.caller, pipeline.organization_id)


def _latest_build(call: Call, pipeline: Pipeline, query: Query) -> Build:
    """Return the latest build that passed of a branch, by default the default one. Raises ApiError."""
    storage, named = call.storage, query.given["branch"] or pipeline.default_branch
    latest = storage.builds.latest_passed if _is_to_member(call, pipeline) else storage.builds.latest_verified
    build = latest(pipeline.id, named)
    if build is None:
        raise ApiError("build_not_found", f"no build of the branch {named} has passed")
    expired_at = storage.artifacts.expired_at(build.id)
    if expired_at is not None:
        when = expired_at.date().isoformat()
        raise ApiError(
            "artifact_expired", f"the artifacts of the latest build that passed were deleted on {when}: build it again"
        )
    return build


def artifact_at(storage: Storage, build: Build, path: str, step_key: str = "") -> tuple[Artifact, StoredFile]:
    """Return the artifact of a path, by default the newest, and its file. Raises ApiError."""
    found = storage.artifacts.at(build.id, path)
    if step_key:
        of_step = {job.uuid for job in storage.jobs.of_build(build.id) if job.step_key == step_key}
        found = [each for each in found if each.job_uuid in of_step]
    if not found:
        raise ApiError.not_found("artifact", path)
    return found[0], file_of(storage, found[0])
