"""Builds of a pipeline: list, create, read, cancel, approve, rebuild, retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.body import Submission  # noqa: TC001 - a parameter of operations
from api.builds.bodies import (  # noqa: TC001 - read in hints
    CreateBuildRequest,
    CreateRepoBuildRequest,
    RebuildRequest,
    StartBuildRequest,
)
from api.errors.catalog import ApiError
from api.operations.operation import (
    GET,
    POST,
    PUT,
    READERS,
    STARTERS,
    Call,
    Span,
    created,
    operation,
    owners_operation,
    shown_once,
)
from api.operations.things import (
    BUILD,
    ORGANIZATION,
    PIPELINE,
    ReadableBuild,
    ReadablePipeline,
    ThisBuild,
    ThisMembership,
    ThisPipeline,
    ThisUser,
    is_member,
)
from storage import ApprovalNotAwaited, BuildState, Page, Priority, VerifiedEvent, document_of, immutable, showing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from api.fields import Warnings
    from storage import Build, Storage, Uuid

_BUILDS = f"{PIPELINE}/builds"
_CREATED = "The build, which is planned and starts by itself."
_NO_ROOM = ("pipeline_manual_disabled", "budget_exhausted", "billing_insufficient_balance", "too_many_builds")
_NOT_CREATED = (*_NO_ROOM, "build_invalid", "build_plan_rejected", "draining")
NOT_REPEATED = (*_NO_ROOM, "build_plan_rejected", "source_expired", "draining")
NOT_RETRIED = (
    *_NO_ROOM,
    "build_not_finished",
    "build_without_jobs",
    "source_expired",
    "log_expired",
    "draining",
)


@immutable
class BuildRecord:
    """A build; ``id`` is its external id. ``rebuild_of`` is the number of the build that it repeats.

    ``pending_reason`` says why none of its jobs may start yet: it waits for an approval, or for other builds of its
    ``concurrency_group``. An ``untrusted`` build is of a pull request from a fork, and gets no secrets. With
    ``strict_shell`` each line of a command that fails fails its step. ``warnings`` name what in its pipeline has no
    effect, such as unknown keys. ``inputs`` are what it was given by name, besides defaults. One of a pull request that
    is built merged has the files of ``merge_commit``, the merge of ``commit`` into ``base_commit``. ``priority`` says
    why it was made, and so when its jobs get VMs before others of their organization. ``event`` is what it was made
    for; ``author`` is the commit's, or else who pushed or began it, for members alone.
    """

    uuid: Uuid
    number: int
    state: BuildState
    pipeline_slug: str
    created_at: datetime
    branch: str | None
    commit: str | None
    message: str | None
    source: str | None
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None
    rebuild_of: int | None
    pending_reason: str | None
    concurrency_group: str | None
    untrusted: bool
    approved_by: str | None
    approved_at: datetime | None
    strict_shell: bool
    warnings: Warnings
    inputs: Mapping[str, str]
    base_commit: str | None
    merge_commit: str | None
    priority: Priority
    event: VerifiedEvent
    author: str | None

    @classmethod
    def of(cls, build: Build, pending_reason: str | None = None, author: str | None = None) -> BuildRecord:
        """Return the record of a stored build."""
        return showing(
            cls,
            build,
            uuid=build.external_id,
            pending_reason=pending_reason,
            event=build.verified_event,
            author=author or None,
        )

    @property
    def seconds(self) -> float | None:
        """The time from its creation to its end, None before its end."""
        return None if self.finished_at is None else (self.finished_at - self.created_at).total_seconds()


@immutable
class ForceFinishRequest:
    """The body of `force_finish_build`: ``failed`` or ``canceled``, and the reason, which the build shows."""

    state: BuildState
    note: str


@immutable
class ForcedBuild:
    """A build that was ended: how many of its VMs were destroyed, and the errors of the others."""

    build: BuildRecord
    effect: str
    destroyed: int
    errors: tuple[str, ...]


def build_document(storage: Storage, build: Build) -> dict[str, object]:
    """Return a build as webhooks show it."""
    return document_of(BuildRecord.of(build, author=storage.build_history.people(build.id).first))


@operation("listBuilds", GET, _BUILDS, "A page of builds.", callers=READERS)
def list_builds(call: Call, pipeline: ReadablePipeline, span: Span) -> Page[BuildRecord]:
    """List the pipeline's builds, newest first."""
    page = call.storage.builds.page(pipeline.id, span.limit, span.after)
    shown = {each.id for each in page.rows} if is_member(call.storage, call.caller, pipeline.organization_id) else ()
    listed = call.storage.build_history.listed(shown) if shown else {}
    return Page(
        tuple(
            BuildRecord.of(
                each, pending_reason(call.storage, each), listed[each.id].people.first if each.id in listed else None
            )
            for each in page.rows
        ),
        page.next_key,
    )


@operation("createBuild", POST, _BUILDS, created(_CREATED), errors=_NOT_CREATED, callers=STARTERS)
def create_build(
    call: Call, member: ThisMembership, pipeline: ThisPipeline, submission: Submission[CreateBuildRequest]
) -> BuildRecord:
    """Create a build; any member can.

    Without `pipeline_ir` the response comes when the build is rendered. While the host is drained or its disk is
    nearly full, nothing is rendered and no build is created: the response is 503 `busy`.
    """
    return record_of_build(call, call.creation.create(call, member.role, pipeline, submission))


@operation(
    "startBuild",
    POST,
    f"{PIPELINE}/start",
    created(_CREATED),
    errors=(*_NO_ROOM, "repository_not_connected", "draining"),
    body_required=False,
    callers=STARTERS,
)
def start_build(
    call: Call, member: ThisMembership, pipeline: ThisPipeline, submission: Submission[StartBuildRequest]
) -> BuildRecord:
    """Build a branch, tag, commit or pull request of the connected repository; any member can.

    The service fetches it as for a push, and the build is of the event `manual`. The response comes at once: until the
    source is there, the build has no commit. A name that the repository does not have, or inputs that do not fit, fail
    the build with a sentence.
    """
    return record_of_build(call, call.creation.start(call, member.role, pipeline, submission))


@operation(
    "createBuildBySource",
    POST,
    f"{ORGANIZATION}/builds",
    created(_CREATED),
    errors=("pipeline_not_found", *_NOT_CREATED),
    callers=STARTERS,
)
def create_build_by_source(
    call: Call, member: ThisMembership, submission: Submission[CreateRepoBuildRequest]
) -> BuildRecord:
    """Create a build of a pipeline by its repository and name; any member can.

    Case matters in `source_slug`, not in `repo_name`; of several matching pipelines the oldest is used. If there is
    none and the source in the body declares one, it is created with the slug `<owner>-<repo>-<source_slug>`.
    """
    created_build = call.creation.create_by_source(call, member.role, member.organization, submission)
    return record_of_build(call, created_build)


@operation("getBuild", GET, BUILD, "The build.", callers=READERS)
def get_build(call: Call, build: ReadableBuild) -> BuildRecord:
    """Get a build."""
    member = is_member(call.storage, call.caller, build.organization_id)
    return record_of_build(call, build) if member else BuildRecord.of(build, pending_reason(call.storage, build), None)


@operation("cancelBuild", PUT, f"{BUILD}/cancel", "The build after the cancel.", callers=STARTERS)
def cancel_build(call: Call, build: ThisBuild) -> BuildRecord:
    """Cancel a build; a finished build stays unchanged."""
    from actors import EngineBusy  # noqa: PLC0415 - the engine takes long to import

    if not build.state.terminal:
        try:
            call.engine.cancel(build.id)
        except EngineBusy as error:
            raise ApiError("busy", str(error), headers={"Retry-After": "1"}) from None
    return record_of_build(call, call.storage.builds.get(build.id) or build)


@operation("approveBuild", POST, f"{BUILD}/approve", "The build, which may run now.", errors=("approval_not_awaited",))
def approve_build(call: Call, build: ThisBuild) -> BuildRecord:
    """Let a build of a pull request from a fork run, which waits for an approval; any member can.

    Look at its commit first: the approval is of this commit alone. The build still gets no secrets.
    """
    try:
        approved = call.storage.approvals.approve(build.id, call.actor)
    except ApprovalNotAwaited as error:
        raise ApiError("approval_not_awaited", f"build {build.number} cannot be approved: {error}") from None
    call.engine.jobs_added(build.id)
    return record_of_build(call, approved)


@operation(
    "rebuildBuild",
    POST,
    f"{BUILD}/rebuild",
    created(_CREATED),
    errors=NOT_REPEATED,
    body_required=False,
    callers=STARTERS,
)
def rebuild_build(
    call: Call, pipeline: ThisPipeline, build: ThisBuild, submission: Submission[RebuildRequest]
) -> BuildRecord:
    """Build it again: the same source, pipeline, inputs and environment as a new build; any member can.

    Branch, commit and message are the same too. The source archive of a finished build is kept for a while; after
    that the response is 410. If the build was never rendered, its source is rendered again, and the response comes
    when that is done. With `debug` the VMs of failed jobs are held, whatever the first build asked for.
    """
    return record_of_build(call, call.creation.rebuild(call, pipeline, build, submission))


@operation("retryBuild", POST, f"{BUILD}/retry", "The build, which runs again.", errors=NOT_RETRIED, callers=STARTERS)
def retry_build(call: Call, build: ThisBuild) -> BuildRecord:
    """Run again what did not pass in a finished build, in that build; any member can.

    These are the jobs that failed, timed out, were canceled or skipped, and the jobs in whose disks they build, of
    which those in the cache pass at once. Soft failures stay, and a build that passed stays unchanged.
    """
    from api.builds.creation import retry_in_place  # noqa: PLC0415 - planning takes long to import

    retried = retry_in_place(call.storage, call.engine, build, budget_id=call.budget_id)
    return record_of_build(call, retried)


@owners_operation("forceFinishBuild", POST, f"{BUILD}/force-finish")
def force_finish_build(call: Call, build: ThisBuild, body: ForceFinishRequest) -> ForcedBuild:
    """End a build and all its jobs at once, billed up to now, and destroy their VMs. Raises BuildFinished.

    It is for a build that the service cannot end.
    """
    from api.operations.leases import end_vms  # noqa: PLC0415 - what makes VMs, which no other operation needs

    leases = call.storage.force_finish.end(build.id, body.state, actor=call.actor, note=body.note)
    errors = end_vms(call, leases)
    ended = record_of_build(call, call.storage.builds.get(build.id) or build)
    return ForcedBuild(ended, f"{body.state}: {body.note}", len(leases) - len(errors), errors)


def pending_reason(storage: Storage, build: Build) -> str | None:
    """Return why none of a build's jobs may start yet, None if they may."""
    if build.state.terminal:
        return None
    from actors import wait_reason  # noqa: PLC0415 - most builds that commands on the box show are over

    return wait_reason(storage, build)


def record_of_build(call: Call, build: Build) -> BuildRecord:
    """Return a build as members of its organization may see it."""
    author = call.storage.build_history.people(build.id).first
    return BuildRecord.of(build, pending_reason(call.storage, build), author)


@immutable
class LogTokenResponse:
    """A token to read a build's logs with, as ``?token=``."""

    token: str
    expires_at: datetime


@operation("getBuildLogToken", GET, f"{BUILD}/log-token", shown_once("The token."), tag="logs")
def get_log_token(call: Call, build: ThisBuild, user: ThisUser) -> LogTokenResponse:
    """Get a token for the logs of all jobs of a build, valid for an hour."""
    from api.signing import LogGrant  # noqa: PLC0415 - a library for signatures, which no command needs

    return LogTokenResponse(*call.serving.log_tokens.issue(LogGrant(build.uuid, user.uuid)))
