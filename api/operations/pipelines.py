"""Pipelines of an organization (wire-decisions.md, "Pipelines")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.body import ABSENT, FAIL_FAST, FIND_CULPRITS, STRICT_SHELL, SUPERSEDED, given
from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PATCH, POST, Call, Span, created, done, operation
from api.operations.things import ORGANIZATION, PIPELINE, ThisMembership, ThisPipeline
from storage import (
    CancelSuperseded,
    NewPipeline,
    Page,
    Pipeline,
    PipelineBusy,
    Role,
    SlugTaken,
    Visibility,
    described,
    immutable,
    repo_name,
    slugify,
)

if TYPE_CHECKING:
    from api.fields import Followers, LongText, RequiredText, TestCommand, Text

_PIPELINES = f"{ORGANIZATION}/pipelines"
_DEFAULT_BRANCH = "The branch that is built by default."


@immutable
class CreatePipelineRequest:
    """The body of ``POST …/pipelines``; the slug is made from the name.

    Without ``repo_name`` it is taken from the repository. ``source_slug`` is the pipeline's name within the repository.
    With ``fail_fast`` the first failure cancels the rest of a build; the default is false. With ``strict_shell`` each
    line of a command that fails fails its step; null leaves it to organization and host. With ``artifacts_public``
    anybody can read the latest artifacts of the repository's own branches; the default is false.
    """

    name: RequiredText
    repository: RequiredText = described("The clone URL of its files.", word="URL")
    default_branch: RequiredText = described(_DEFAULT_BRANCH, word="BRANCH")
    description: LongText | None = None
    repo_name: Text | None = None
    source_slug: Text | None = None
    visibility: Visibility | None = None
    allow_manual: bool | None = None
    fail_fast: bool | None = None
    strict_shell: bool | None = None
    artifacts_public: bool | None = None


@immutable
class UpdatePipelineRequest:
    """The body of ``PATCH …/pipelines/{pipeline}``. Absent fields stay as they are, and so does the slug.

    ``concurrency_group`` is for builds from now on; ``{branch}`` in it stands for a build's branch, and null for no
    group. ``cancel_superseded`` are the builds that a newer push to their branch or pull request cancels: those that
    wait, also running ones of ``branches`` but the default branch, or ``all``; null leaves it to organization and host,
    and so does null of ``strict_shell`` and ``find_culprits``. With ``strict_shell`` each line of a command that fails
    fails its step, in builds from now on. Null for ``test_command`` leaves it to the runner that a job calls.
    """

    name: RequiredText = described("Its name to show; the slug stays.", default=ABSENT, word="NAME")
    default_branch: RequiredText = described(_DEFAULT_BRANCH, default=ABSENT, word="BRANCH")
    description: LongText | None = described("A sentence about it.", default=ABSENT)
    repo_name: RequiredText | None = ABSENT
    source_slug: RequiredText | None = ABSENT
    visibility: Visibility = described("Of a public pipeline anybody can read builds, jobs and logs.", default=ABSENT)
    allow_manual: bool = described("Whether people may start builds.", default=ABSENT)
    fail_fast: bool = described(FAIL_FAST, default=ABSENT)
    concurrency_group: RequiredText | None = described(
        "The concurrency group of builds from now on; {branch} in it stands for a build's branch.",
        default=ABSENT,
        word="NAME",
    )
    concurrency_limit: int = described(
        "The most builds of the group that run at a time.", default=ABSENT, bounds=(1, 1000)
    )
    cancel_superseded: CancelSuperseded | None = described(SUPERSEDED, default=ABSENT)
    strict_shell: bool | None = described(STRICT_SHELL, default=ABSENT)
    find_culprits: bool | None = described(FIND_CULPRITS, default=ABSENT)
    artifacts_public: bool = described(
        "Whether anybody can read the latest artifacts of the repository's own branches.", default=ABSENT
    )
    test_command: TestCommand | None = described(
        "The command by which `test prove` runs some tests alone; {tests}, {suites} and {pattern} in it stand for them,"
        " quoted.",
        default=ABSENT,
        word="COMMAND",
    )
    followers: Followers = described(
        "Other organizations whose pipelines may follow it, and take its files.", default=ABSENT
    )


@operation("listPipelines", GET, _PIPELINES, "A page of pipelines.")
def list_pipelines(call: Call, member: ThisMembership, span: Span) -> Page[Pipeline]:
    """List the organization's pipelines, oldest first."""
    return call.storage.pipelines.page(member.organization.id, span.limit, span.after)


@operation("createPipeline", POST, _PIPELINES, created("The pipeline."), errors=("pipeline_slug_taken",))
def create_pipeline(call: Call, member: ThisMembership, body: CreatePipelineRequest) -> Pipeline:
    """Create a pipeline; any member can."""
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
        visibility=body.visibility or Visibility.PRIVATE,
        allow_manual=body.allow_manual is not False,
        fail_fast=bool(body.fail_fast),
        source_slug=body.source_slug or None,
        strict_shell=body.strict_shell,
        artifacts_public=bool(body.artifacts_public),
    )
    try:
        return call.storage.pipelines.create(member.organization.id, new)
    except SlugTaken:
        raise ApiError(
            "pipeline_slug_taken", f'the organization already has a pipeline "{slug}"; choose another name'
        ) from None


@operation("getPipeline", GET, PIPELINE, "The pipeline.")
def get_pipeline(pipeline: ThisPipeline) -> Pipeline:
    """Get a pipeline."""
    return pipeline


@operation("updatePipeline", PATCH, PIPELINE, "The pipeline as it is now.", role=Role.ADMIN)
def update_pipeline(call: Call, pipeline: ThisPipeline, body: UpdatePipelineRequest) -> Pipeline:
    """Change a pipeline; needs the role admin."""
    changes = given(body)
    if body.followers is not ABSENT:
        changes["followers"] = tuple(dict.fromkeys(body.followers))
        unknown = [each for each in changes["followers"] if call.storage.organizations.by_slug(each) is None]
        if unknown:
            raise ApiError("invalid_body", f'followers: there is no organization "{unknown[0]}"')
    return call.storage.pipelines.update(pipeline.id, **changes)


@operation(
    "deletePipeline", DELETE, PIPELINE, done("The pipeline is deleted."), role=Role.ADMIN, errors=("pipeline_busy",)
)
def delete_pipeline(call: Call, pipeline: ThisPipeline) -> None:
    """Delete a pipeline with its builds, cache and secrets; needs the role admin.

    Refused while builds run. The ledger keeps the cost of the builds, and the slug can be used again.
    """
    try:
        call.storage.pipelines.delete(pipeline.id)
    except PipelineBusy as error:
        raise ApiError("pipeline_busy", f'"{pipeline.slug}" cannot be deleted: {error}') from None
