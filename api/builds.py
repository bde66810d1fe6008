"""Builds of a pipeline: list, create, read, cancel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pydantic import BaseModel

import storage
from actors import EngineBusy
from api.bodies import answer, check_body
from api.build_bodies import CreateBuildRequest, CreateRepoBuildRequest, RepoIdentity
from api.errors import ApiError
from api.fields import Timestamp, Uuid, stamp, stamp_or_none
from api.idempotency import KEY_ERRORS, KEY_PARAMETERS, Submission
from api.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import BuildState, Storage

if TYPE_CHECKING:
    import falcon

    from api.access import Access
    from api.build_intake import BuildIntake
    from api.engine import Engine
    from api.paging import Pager

__all__ = ["BuildRecord", "Builds"]


_PIPELINE_ERRORS = ("organization_not_found", "pipeline_not_found")
_BUILD_ERRORS = (*_PIPELINE_ERRORS, "build_not_found")
_CREATION_ERRORS = (
    *_PIPELINE_ERRORS,
    *KEY_ERRORS,
    "pipeline_manual_disabled",
    "billing_insufficient_balance",
    "build_invalid",
    "build_plan_rejected",
    "draining",
)


class BuildRecord(BaseModel):
    """A build; ``id`` is its external id."""

    id: Uuid
    number: int
    state: BuildState
    pipeline_slug: str
    created_at: Timestamp
    branch: str | None
    commit: str | None
    message: str | None
    source: str | None
    scheduled_at: Timestamp | None
    started_at: Timestamp | None
    finished_at: Timestamp | None
    error_code: str | None
    error_message: str | None

    @classmethod
    def of(cls, build: storage.Build) -> BuildRecord:
        """Return the record of a stored build."""
        return cls(
            id=build.external_id,
            number=build.number,
            state=build.state,
            pipeline_slug=build.pipeline_slug,
            created_at=stamp(build.created_at),
            branch=build.branch,
            commit=build.commit,
            message=build.message,
            source=build.source,
            scheduled_at=stamp_or_none(build.scheduled_at),
            started_at=stamp_or_none(build.started_at),
            finished_at=stamp_or_none(build.finished_at),
            error_code=build.error_code,
            error_message=build.error_message,
        )


_CREATED = Answer(201, "The build, which is planned and runs on its own.", BuildRecord)


class Builds:
    """``/api/v0/organizations/{org}/pipelines/{pipeline}/builds`` and the paths below it."""

    def __init__(self, storage: Storage, engine: Engine, access: Access, pager: Pager, intake: BuildIntake) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._pager = pager
        self._intake = intake

    @operation(
        "listBuilds",
        Answer(200, "A page of builds.", PageRecord[BuildRecord]),
        errors=(*_PIPELINE_ERRORS, *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
        security="optional",
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """List the pipeline's builds, newest first."""
        found = self._access.readable_pipeline(req, org, pipeline)
        page = partial(self._storage.builds.page, found.id)
        self._pager.answer(req, resp, f"builds/{found.id}", page, BuildRecord.of)

    @operation(
        "createBuild",
        _CREATED,
        errors=_CREATION_ERRORS,
        body=CreateBuildRequest,
        parameters=KEY_PARAMETERS,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Create a build; any member may.

        Without `pipeline_ir` the response comes when the build is rendered. While nothing is rendered, because the
        owner has drained the host or its disk is nearly full, no build is made: the response is 503 `busy`, to be
        retried later.
        """
        member, found = self._access.pipeline(req, org, pipeline)
        submission = Submission.read(req, member)
        answer(resp, BuildRecord.of(self._intake.take(req, found, submission, CreateBuildRequest)), status=201)

    @operation(
        "createBuildBySource",
        _CREATED,
        errors=_CREATION_ERRORS,
        body=CreateRepoBuildRequest,
        parameters=KEY_PARAMETERS,
    )
    def on_post_by_repo(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Create a build of a pipeline by its repository and name; any member may.

        `repo_name` is compared without regard to case, `source_slug` exactly; of several pipelines the oldest is used.
        If there is none and the source in the body declares it, it is created with the slug
        `<owner>-<repo>-<source_slug>`.
        """
        member = self._access.member(req, org)
        submission = Submission.read(req, member)
        meant = check_body(submission.document, RepoIdentity)
        found = self._storage.pipelines.by_source(member.organization.id, meant.repo_name, meant.source_slug)
        if found is None:
            found = self._intake.register(member.organization, meant, submission)
        answer(resp, BuildRecord.of(self._intake.take(req, found, submission, CreateRepoBuildRequest)), status=201)

    @operation("getBuild", Answer(200, "The build.", BuildRecord), errors=_BUILD_ERRORS, security="optional")
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Get a build."""
        answer(resp, BuildRecord.of(self._access.readable_build(req, org, pipeline, number)))

    @operation("cancelBuild", Answer(200, "The build as it is now.", BuildRecord), errors=_BUILD_ERRORS)
    def on_put_cancel(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Cancel a build; a finished one stays as it is."""
        build = self._access.build(req, org, pipeline, number)
        if not build.state.terminal:
            try:
                self._engine.cancel(build.id)
            except EngineBusy as error:
                raise ApiError("busy", str(error), headers={"Retry-After": "1"}) from None
            build = self._storage.builds.get(build.id) or build
        answer(resp, BuildRecord.of(build))
