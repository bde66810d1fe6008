"""Pipelines of an organization (wire-decisions.md, "Pipelines")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field

import storage
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import LongText, RequestBody, RequiredText, StoredRecord, Text, Timestamp
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import (
    CancelSuperseded,
    NewPipeline,
    PipelineBusy,
    Role,
    SlugTaken,
    Storage,
    Visibility,
    repo_name,
    slugify,
)

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.paging import Pager
    from storage import PipelineChanges

__all__ = ["CreatePipelineRequest", "PipelineRecord", "PipelinesResource", "UpdatePipelineRequest"]

_ERRORS = ("organization_not_found", "pipeline_not_found")
_MAX_CONCURRENCY = 1000


class PipelineRecord(StoredRecord):
    """A pipeline.

    Builds of the organization with the same ``concurrency_group`` run at most ``concurrency_limit`` at a time. Where
    ``strict_shell`` is null, the setting of the organization or host applies.
    """

    slug: str
    name: str
    repository: str
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    build_count: int
    created_at: Timestamp
    description: str | None
    repo_name: str | None
    concurrency_group: str | None
    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None
    fail_fast: bool
    strict_shell: bool | None

    @classmethod
    def of(cls, pipeline: storage.Pipeline) -> PipelineRecord:
        """Return the record of a stored pipeline."""
        return cls.showing(pipeline)


class CreatePipelineRequest(RequestBody):
    """The body of ``POST …/pipelines``; the slug is made from the name.

    Without ``repo_name`` it is taken from the repository. ``source_slug`` is the pipeline's name within the repository.
    With ``fail_fast`` the first failure cancels the rest of a build; the default is false. With ``strict_shell`` each
    line of a command that fails fails its step; null leaves it to organization and host.
    """

    name: RequiredText
    repository: RequiredText
    default_branch: RequiredText
    description: LongText | None = None
    repo_name: Text | None = None
    source_slug: Text | None = None
    visibility: Literal["private", "public"] | None = None
    allow_manual: bool | None = None
    fail_fast: bool | None = None
    strict_shell: bool | None = None


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


class UpdatePipelineRequest(RequestBody):
    """The body of ``PATCH …/pipelines/{pipeline}``. Absent fields stay as they are, and so does the slug.

    ``concurrency_group`` is for builds from now on; ``{branch}`` in it stands for a build's branch, and null for no
    group. ``cancel_superseded`` are the builds that a newer push to their branch or pull request cancels: those that
    wait, also running ones of ``branches`` but the default branch, or ``all``; null leaves it to organization and host,
    and so does null of ``strict_shell``. With that each line of a command that fails fails its step, in builds from now
    on.
    """

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    name: RequiredText = ""
    default_branch: RequiredText = ""
    description: LongText | None = None
    repo_name: RequiredText | None = None
    source_slug: RequiredText | None = None
    visibility: Literal["private", "public"] = "private"
    allow_manual: bool = True
    fail_fast: bool = False
    concurrency_group: RequiredText | None = None
    concurrency_limit: Annotated[int, Field(ge=1, le=_MAX_CONCURRENCY)] = 1
    cancel_superseded: Literal["waiting", "branches", "all"] | None = None
    strict_shell: bool | None = None

    def changes(self) -> PipelineChanges:
        """Return the fields that the body gives."""
        given = cast("PipelineChanges", self.model_dump(exclude_unset=True))
        if "visibility" in given:
            given["visibility"] = Visibility(self.visibility)
        if self.cancel_superseded is not None:
            given["cancel_superseded"] = CancelSuperseded(self.cancel_superseded)
        return given


class PipelinesResource:
    """``/api/v0/organizations/{org}/pipelines`` and the paths below it."""

    def __init__(self, storage: Storage, access: Access, pager: Pager) -> None:
        self._storage = storage
        self._access = access
        self._pager = pager

    @operation(
        "listPipelines",
        Answer(200, "A page of pipelines.", PageRecord[PipelineRecord]),
        errors=("organization_not_found", *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the organization's pipelines, oldest first."""
        organization = self._access.member(req, org).organization
        page = partial(self._storage.pipelines.page, organization.id)
        self._pager.answer(req, resp, f"pipelines/{organization.id}", page, PipelineRecord.of)

    @operation(
        "createPipeline",
        Answer(201, "The pipeline.", PipelineRecord),
        errors=("organization_not_found", "pipeline_slug_taken"),
        body=CreatePipelineRequest,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Create a pipeline; any member can."""
        organization = self._access.member(req, org).organization
        body = read_body(req, CreatePipelineRequest)
        slug = slugify(body.name)
        if not slug:
            raise ApiError("invalid_body", "name: expected at least one letter a-z or digit")
        new = NewPipeline(
            slug=slug,
            name=body.name,
            repository=body.repository,
            default_branch=body.default_branch,
            description=body.description,
            repo_name=body.repo_name or repo_name(body.repository),
            visibility=Visibility(body.visibility or Visibility.PRIVATE),
            allow_manual=body.allow_manual is not False,
            fail_fast=bool(body.fail_fast),
            source_slug=body.source_slug or None,
            strict_shell=body.strict_shell,
        )
        try:
            pipeline = self._storage.pipelines.create(organization.id, new)
        except SlugTaken:
            raise ApiError(
                "pipeline_slug_taken", f'the organization already has a pipeline "{slug}"; choose another name'
            ) from None
        answer(resp, PipelineRecord.of(pipeline), status=201)

    @operation("getPipeline", Answer(200, "The pipeline.", PipelineRecord), errors=_ERRORS)
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Get a pipeline."""
        _, found = self._access.pipeline(req, org, pipeline)
        answer(resp, PipelineRecord.of(found))

    @operation(
        "updatePipeline",
        Answer(200, "The pipeline as it is now.", PipelineRecord),
        errors=(*_ERRORS, "insufficient_org_role"),
        body=UpdatePipelineRequest,
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Change a pipeline; needs the role admin."""
        found = self._managed(req, org, pipeline)
        body = read_body(req, UpdatePipelineRequest)
        answer(resp, PipelineRecord.of(self._storage.pipelines.update(found.id, **body.changes())))

    @operation(
        "deletePipeline",
        Answer(204, "The pipeline is deleted."),
        errors=(*_ERRORS, "insufficient_org_role", "pipeline_busy"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Delete a pipeline with its builds, cache and secrets; needs the role admin.

        Refused while builds run. The ledger keeps the cost of the builds, and the slug can be used again.
        """
        found = self._managed(req, org, pipeline)
        try:
            self._storage.pipelines.delete(found.id)
        except PipelineBusy as error:
            raise ApiError("pipeline_busy", f'"{found.slug}" cannot be deleted: {error}') from None
        resp.status = 204

    def _managed(self, req: falcon.Request, org: str, pipeline: str) -> storage.Pipeline:
        """Return a pipeline that the caller may change. Raises ApiError for 401, 404 and 403."""
        member, found = self._access.pipeline(req, org, pipeline)
        member.require(Role.ADMIN)
        return found
