"""Artifacts of jobs: lists, and downloads by range (wire-decisions.md, "Logs and artifacts").

Only members read artifacts: of a public pipeline only builds, jobs and logs are public.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from api.errors.responses import ApiError
from api.fields import StoredRecord, Timestamp, Uuid
from api.http.byte_ranges import parse_range
from api.http.files import SourceSlice, StoredFile
from api.openapi.operations import Answer, Parameter, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from api.resources.jobs import job_in_build

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    import storage
    from api.middleware.authentication import Access
    from api.paging import Pager
    from api.request import ApiRequest
    from storage import Storage

__all__ = ["ArtifactRecord", "ArtifactsResource", "stored_artifact"]

_log = logging.getLogger(__name__)

_BINARY = "application/octet-stream"
_BUILD_ERRORS = ("organization_not_found", "pipeline_not_found", "build_not_found")
_HEADERS = {
    "ETag": "The SHA-256 of the whole file, in quotes.",
    "Content-Disposition": "`attachment`, with the file's name.",
}


class ArtifactRecord(StoredRecord):
    """A file that a job kept; ``path`` is relative to the workspace, ``mime_type`` follows from the name."""

    id: Uuid
    job_id: Uuid
    path: str
    filename: str
    mime_type: str
    file_size: int
    sha256: str
    created_at: Timestamp
    download_url: str


class ArtifactsResource:
    """``…/builds/{number}/artifacts``, ``…/jobs/{job_id}/artifacts`` and ``…/artifacts/{id}/download``."""

    def __init__(self, storage: Storage, access: Access, pager: Pager, url: str) -> None:
        self._artifacts = storage.artifacts
        self._storage = storage
        self._access = access
        self._pager = pager
        self._url = url

    @operation(
        "listBuildArtifacts",
        Answer(200, "A page of artifacts.", PageRecord[ArtifactRecord]),
        errors=(*_BUILD_ERRORS, *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_of_build(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """List a build's artifacts by job, in the order in which the jobs ended."""
        build = self._access.build(req, org, pipeline, number)
        page = partial(self._artifacts.page_of_build, build.id)
        self._pager.answer(req, resp, f"artifacts/{build.id}", page, self._recorder(build))

    @operation(
        "listJobArtifacts",
        Answer(200, "A page of artifacts.", PageRecord[ArtifactRecord]),
        errors=(*_BUILD_ERRORS, "job_not_found", *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_of_job(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str
    ) -> None:
        """List a job's artifacts.

        They appear when the job's command has ended, before the job itself has.
        """
        build = self._access.build(req, org, pipeline, number)
        job = job_in_build(self._storage, build, job_id)
        page = partial(self._artifacts.page_of_job, job.id)
        self._pager.answer(req, resp, f"artifacts/{build.id}/{job.id}", page, self._recorder(build))

    @operation(
        "downloadArtifact",
        Answer(200, "The file.", media_type=_BINARY, headers=_HEADERS),
        Answer(
            206,
            "The range.",
            media_type=_BINARY,
            headers=_HEADERS | {"Content-Range": "The position of these bytes and the full size."},
        ),
        errors=(*_BUILD_ERRORS, "artifact_not_found", "artifact_expired", "range_not_satisfiable"),
        parameters=(
            Parameter(
                "Range",
                "One range of bytes; several are ignored.",
                {"type": "string", "examples": ["bytes=0-65535"]},
                "header",
            ),
        ),
    )
    def on_get_download(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        org: str,
        pipeline: str,
        number: str,
        id: str,
    ) -> None:
        """Download an artifact, or a range of it.

        The type is always `application/octet-stream`, an attachment, so that a browser saves the file and never shows
        it as a page.
        """
        build = self._access.build(req, org, pipeline, number)
        artifact, file = stored_artifact(self._storage, build, id)
        wanted = parse_range(req.get_header("Range"))
        bounds = (0, artifact.file_size) if wanted is None else wanted.within(artifact.file_size)
        if bounds is None:
            raise ApiError(
                "range_not_satisfiable",
                f"the file has {artifact.file_size} bytes, none of them in the requested range",
                headers={"Content-Range": f"bytes */{artifact.file_size}"},
            )
        start, end = bounds
        resp.status = 200 if wanted is None else 206
        resp.content_type = _BINARY
        resp.cache_control = ["private", "no-cache"]
        resp.etag = artifact.sha256
        resp.set_headers({"Accept-Ranges": "bytes", "Content-Disposition": _attachment(artifact.filename)})
        if wanted is not None:
            resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{artifact.file_size}")
        resp.stream = SourceSlice(file, start, end)
        resp.content_length = end - start

    def _recorder(self, build: storage.Build) -> Callable[[storage.Artifact], ArtifactRecord]:
        """Return a function that makes records of a build's artifacts."""
        path = f"organizations/{build.organization_slug}/pipelines/{build.pipeline_slug}/builds/{build.number}"
        above = f"{self._url}/api/v0/{path}/artifacts"
        return lambda artifact: ArtifactRecord.showing(
            artifact,
            id=artifact.uuid,
            job_id=artifact.job_uuid,
            download_url=f"{above}/{artifact.uuid}/download",
        )


def stored_artifact(store: Storage, build: storage.Build, uuid: str) -> tuple[storage.Artifact, StoredFile]:
    """Return a build's artifact and its file. Raises ApiError if it never existed, expired or was lost."""
    expired_at = store.artifacts.expired_at(build.id)
    if expired_at is not None:
        when = expired_at.date().isoformat()
        raise ApiError(
            "artifact_expired", f"the artifacts of this build were deleted on {when}, when their retention ended"
        )
    artifact = store.artifacts.find(build.id, uuid)
    if artifact is None:
        raise ApiError.not_found("artifact", uuid)
    file = StoredFile(store.artifacts.path(artifact))
    if file.size() != artifact.file_size:
        _log.error("artifact %s is missing on the disk, or incomplete: %s", artifact.uuid, file.path)
        raise ApiError("artifact_expired", "the file is missing on the service's disk, or incomplete")
    return artifact, file


def _attachment(filename: str) -> str:
    """Return the ``Content-Disposition`` to save a file under its name, in ASCII and in UTF-8 (RFC 6266)."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
