"""Builds of a pipeline: list, create, read, cancel, approve, rebuild, retry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

import storage
from actors import wait_reason
from api.bodies import answer
from api.builds.approving import approve_build
from api.builds.bodies import CreateBuildRequest, CreateRepoBuildRequest, RebuildRequest, RepoIdentity
from api.builds.canceling import cancel_build
from api.builds.retrying import rerun_build
from api.fields import StoredRecord, Timestamp, Uuid, check_body
from api.middleware.idempotency import KEY_ERRORS, KEY_PARAMETERS, Submission
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import BuildState, Storage

if TYPE_CHECKING:
    import falcon

    from api.builds.creation import BuildCreation
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.paging import Pager

__all__ = ["BuildRecord", "BuildsResource", "build_document"]


_PIPELINE_ERRORS = ("organization_not_found", "pipeline_not_found")
_BUILD_ERRORS = (*_PIPELINE_ERRORS, "build_not_found")
_CREATION_ERRORS = (
    *_PIPELINE_ERRORS,
    *KEY_ERRORS,
    "pipeline_manual_disabled",
    "billing_insufficient_balance",
    "too_many_builds",
    "build_invalid",
    "build_plan_rejected",
    "draining",
)
_REBUILD_ERRORS = (
    *_BUILD_ERRORS,
    *KEY_ERRORS,
    "pipeline_manual_disabled",
    "billing_insufficient_balance",
    "too_many_builds",
    "build_plan_rejected",
    "source_expired",
    "draining",
)
_APPROVAL_ERRORS = (*_BUILD_ERRORS, "approval_not_awaited")
_RETRY_ERRORS = (
    *_BUILD_ERRORS,
    "pipeline_manual_disabled",
    "billing_insufficient_balance",
    "too_many_builds",
    "build_not_finished",
    "build_without_jobs",
    "source_expired",
    "log_expired",
    "draining",
)


_WARNING = 'step "test": the key "runner_args.cpus" has no effect: did you mean "cpu"?'


class BuildRecord(StoredRecord):
    """A build; ``id`` is its external id. ``rebuild_of`` is the number of the build that it repeats.

    ``pending_reason`` says why none of its jobs may start yet: it waits for an approval, or for other builds of its
    ``concurrency_group``. An ``untrusted`` build is of a pull request from a fork, and gets no secrets. With
    ``strict_shell`` each line of a command that fails fails its step. ``warnings`` name what in its pipeline has no
    effect, such as unknown keys.
    """

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
    rebuild_of: int | None
    pending_reason: str | None
    concurrency_group: str | None
    untrusted: bool
    approved_by: str | None
    approved_at: Timestamp | None
    strict_shell: bool
    warnings: Annotated[list[str], Field(examples=[[_WARNING]])]

    @classmethod
    def of(cls, build: storage.Build, pending_reason: str | None) -> BuildRecord:
        """Return the record of a stored build."""
        return cls.showing(build, id=build.external_id, pending_reason=pending_reason, warnings=list(build.warnings))


def build_document(build: storage.Build) -> dict[str, object]:
    """Return a build as responses and webhooks show it."""
    return BuildRecord.of(build, pending_reason=None).model_dump(mode="json")


_CREATED = Answer(201, "The build, which is planned and starts by itself.", BuildRecord)


class BuildsResource:
    """``/api/v0/organizations/{org}/pipelines/{pipeline}/builds`` and the paths below it."""

    def __init__(
        self, storage: Storage, engine: EngineInterface, access: Access, pager: Pager, creation: BuildCreation
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._pager = pager
        self._creation = creation

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
        self._pager.answer(req, resp, f"builds/{found.id}", page, self._record)

    @operation(
        "createBuild",
        _CREATED,
        errors=_CREATION_ERRORS,
        body=CreateBuildRequest,
        parameters=KEY_PARAMETERS,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """Create a build; any member can.

        Without `pipeline_ir` the response comes when the build is rendered. While the host is drained or its disk is
        nearly full, nothing is rendered and no build is created: the response is 503 `busy`.
        """
        member, found = self._access.pipeline(req, org, pipeline)
        submission = Submission.read(req, member)
        answer(resp, self._record(self._creation.create(req, found, submission, CreateBuildRequest)), status=201)

    @operation(
        "createBuildBySource",
        _CREATED,
        errors=_CREATION_ERRORS,
        body=CreateRepoBuildRequest,
        parameters=KEY_PARAMETERS,
    )
    def on_post_by_repo(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Create a build of a pipeline by its repository and name; any member can.

        Case matters in `source_slug`, not in `repo_name`; of several matching pipelines the oldest is used. If there is
        none and the source in the body declares one, it is created with the slug `<owner>-<repo>-<source_slug>`.
        """
        member = self._access.member(req, org)
        submission = Submission.read(req, member)
        identity = check_body(submission.document, RepoIdentity)
        found = self._storage.pipelines.by_source(member.organization.id, identity.repo_name, identity.source_slug)
        if found is None:
            found = self._creation.register_pipeline(member.organization, identity, submission)
        answer(resp, self._record(self._creation.create(req, found, submission, CreateRepoBuildRequest)), status=201)

    @operation("getBuild", Answer(200, "The build.", BuildRecord), errors=_BUILD_ERRORS, security="optional")
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Get a build."""
        answer(resp, self._record(self._access.readable_build(req, org, pipeline, number)))

    @operation("cancelBuild", Answer(200, "The build after the cancel.", BuildRecord), errors=_BUILD_ERRORS)
    def on_put_cancel(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Cancel a build; a finished build stays unchanged."""
        build = self._access.build(req, org, pipeline, number)
        answer(resp, self._record(cancel_build(self._storage, self._engine, build)))

    @operation("approveBuild", Answer(200, "The build, which may run now.", BuildRecord), errors=_APPROVAL_ERRORS)
    def on_post_approve(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Let a build of a pull request from a fork run, which waits for an approval; any member can.

        Look at its commit first: the approval is of this commit alone. The build still gets no secrets.
        """
        member, _ = self._access.pipeline(req, org, pipeline)
        build = self._access.build(req, org, pipeline, number)
        answer(resp, self._record(approve_build(self._storage, self._engine, build, member.caller.user)))

    @operation(
        "rebuildBuild",
        _CREATED,
        errors=_REBUILD_ERRORS,
        body=RebuildRequest,
        body_required=False,
        parameters=KEY_PARAMETERS,
    )
    def on_post_rebuild(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Build it again: the same source, pipeline and environment as a new build; any member can.

        Branch, commit and message are the same too. The source archive of a finished build is kept for a while; after
        that the response is 410. If the build was never rendered, its source is rendered again, and the response comes
        when that is done. With `debug` the VMs of failed jobs are held, whatever the first build asked for.
        """
        member, found = self._access.pipeline(req, org, pipeline)
        build = self._access.build(req, org, pipeline, number)
        submission = Submission.read_optional(req, member)
        answer(resp, self._record(self._creation.rebuild(req, found, build, submission)), status=201)

    @operation("retryBuild", Answer(200, "The build, which runs again.", BuildRecord), errors=_RETRY_ERRORS)
    def on_post_retry(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Run again what did not pass in a finished build, in that build; any member can.

        These are the jobs that failed, timed out, were canceled or skipped, and the jobs in whose disks they build, of
        which those in the cache pass at once. Soft failures stay, and a build that passed stays unchanged.
        """
        build = self._access.build(req, org, pipeline, number)
        answer(resp, self._record(rerun_build(self._storage, self._engine, build)))

    def _record(self, build: storage.Build) -> BuildRecord:
        return BuildRecord.of(build, wait_reason(self._storage, build))
