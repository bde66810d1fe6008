"""Artifacts by a stable address: those of the latest build of a branch that passed.

They are for members, as all artifacts are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.artifacts import ArtifactRecord, file_of, page_of
from api.operations.operation import GET, Call, Download, Query, Span, operation
from api.operations.things import PIPELINE, ThisPipeline
from storage import Page  # noqa: TC001 - read in hints

if TYPE_CHECKING:
    from api.http.files import StoredFile
    from storage import Artifact, Build, Pipeline, Storage

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
    "listLatestArtifacts",
    GET,
    _LATEST,
    "A page of artifacts.",
    errors=_ERRORS,
    parameters=(_BRANCH,),
)
def list_latest_artifacts(call: Call, pipeline: ThisPipeline, span: Span, query: Query) -> Page[ArtifactRecord]:
    """List the artifacts of the latest build of a branch that passed.

    There is one address for a branch, whatever was built since.
    """
    build = latest_build(call.storage, pipeline, query.given["branch"])
    return page_of(call, build, call.storage.artifacts.page_of_build(build.id, span.limit, span.after))


@operation(
    "downloadLatestArtifact",
    GET,
    f"{_LATEST}/file",
    "The file.",
    errors=(*_ERRORS, "artifact_not_found"),
    parameters=(_PATH, _BRANCH, _STEP),
)
def download_latest_artifact(call: Call, pipeline: ThisPipeline, query: Query) -> Download:
    """Download an artifact of the latest build of a branch that passed, or a range of it.

    The type is always `application/octet-stream`, an
    attachment.
    """
    storage, given = call.storage, query.given
    build = latest_build(storage, pipeline, given["branch"])
    artifact, file = artifact_at(storage, build, given["path"], given["step"])
    return Download(file, artifact.file_size, artifact.filename, artifact.sha256)


def latest_build(storage: Storage, pipeline: Pipeline, branch: str) -> Build:
    """Return the latest build that passed of a branch, by default the default one. Raises ApiError."""
    named = branch or pipeline.default_branch
    build = storage.builds.latest_passed(pipeline.id, named)
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
