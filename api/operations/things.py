"""The things that paths of operations name, and how each is found for a caller.

Checks have the same order everywhere: first the things of the path, from left to right, then the role
(wire-decisions.md, "Everywhere" and "Who may do what").
"""

from __future__ import annotations

import re
from typing import Annotated

from api.errors.catalog import ApiError
from api.operations.operation import Call, Found, HostOwner, Membership
from storage import (
    Build,
    Caller,
    Job,
    Organization,
    Pipeline,
    Repository,
    Role,
    Storage,
    User,
    UserUnknown,
    Visibility,
    pattern,
)

BILLING = "/api/v0/billing"
NAMED_USER = "/users/{email}"
USER = "/api/v0/user"
ORGANIZATION = "/api/v0/organizations/{org}"
PIPELINE = f"{ORGANIZATION}/pipelines/{{pipeline}}"
BUILD = f"{PIPELINE}/builds/{{number}}"
JOB = f"{BUILD}/jobs/{{job_id}}"
LOG_PATH = f"{JOB}/log"
SERVICE_LOG_PATH = f"{JOB}/services/{{service}}/log"
RENDER_LOG_PATH = f"{BUILD}/render-log"
AUTH = "/api/v0/auth"

_NUMBER = pattern(r"[1-9][0-9]{0,17}", re.ASCII)
_PIPELINE_ERRORS = ("organization_not_found", "pipeline_not_found")
_BUILD_ERRORS = (*_PIPELINE_ERRORS, "build_not_found")

Somebody = Caller | HostOwner
"""A caller who said who they are."""


def is_member(storage: Storage, caller: Somebody | None, organization_id: int) -> bool:
    """Tell whether a caller is a member of an organization; the owner of the host is one of each."""
    if isinstance(caller, HostOwner):
        return True
    return caller is not None and storage.organizations.role(organization_id, caller.user.id) is not None


def member_organization(storage: Storage, caller: Somebody | None, org: str) -> tuple[Organization, Role]:
    """Return an organization and the caller's role in it. Raises ApiError ``organization_not_found``."""
    if isinstance(caller, HostOwner):
        organization = storage.organizations.by_slug(org)
        found = None if organization is None else (organization, Role.OWNER)
    else:
        found = None if caller is None else storage.organizations.for_member(caller.user.id, org)
    if found is None:
        raise ApiError.not_found("organization", org)
    return found


def member_pipeline(storage: Storage, organization_id: int, pipeline: str) -> Pipeline:
    """Return a pipeline of an organization. Raises ApiError ``pipeline_not_found``."""
    found = storage.pipelines.by_slug(organization_id, pipeline)
    if found is None:
        raise ApiError.not_found("pipeline", pipeline)
    return found


def build_of_path(storage: Storage, org: str, pipeline: str, number: str) -> Build | None:
    """Return the build that a path names, without checking access; None if there is none."""
    if not _NUMBER.fullmatch(number):
        return None
    return storage.builds.find(org, pipeline, int(number))


def member_build(storage: Storage, caller: Somebody | None, org: str, pipeline: str, number: str) -> Build:
    """Return a build for a member of its organization. Raises ApiError for 404."""
    build = build_of_path(storage, org, pipeline, number)
    if build is not None and is_member(storage, caller, build.organization_id):
        return build
    member_pipeline(storage, member_organization(storage, caller, org)[0].id, pipeline)
    raise ApiError.not_found("build", number)


def readable_pipeline(storage: Storage, caller: Somebody | None, org: str, slug: str) -> Pipeline:
    """Return a pipeline whose builds the caller may read, as a member or because it is public.

    Raises ApiError for 401 and 404.
    """
    organization = storage.organizations.by_slug(org)
    pipeline = None if organization is None else storage.pipelines.by_slug(organization.id, slug)
    if pipeline is not None and pipeline.visibility is Visibility.PUBLIC:
        return pipeline
    if caller is None:
        raise ApiError.unauthorized(
            "send `Authorization: Bearer <token>`; only public pipelines can be read without a token"
        )
    if organization is None or not is_member(storage, caller, organization.id):
        raise ApiError.not_found("organization", org)
    if pipeline is None:
        raise ApiError.not_found("pipeline", slug)
    return pipeline


def published_pipeline(storage: Storage, caller: Somebody | None, org: str, slug: str) -> Pipeline:
    """Return a pipeline whose latest artifacts the caller may read. Raises ApiError for 401 and 404."""
    organization = storage.organizations.by_slug(org)
    pipeline = None if organization is None else storage.pipelines.by_slug(organization.id, slug)
    if organization is not None and is_member(storage, caller, organization.id):
        return member_pipeline(storage, organization.id, slug)
    if pipeline is not None and pipeline.artifacts_public:
        return pipeline
    if caller is None:
        raise ApiError.unauthorized(
            "send `Authorization: Bearer <token>`; only public artifacts can be read without a token"
        )
    raise ApiError.not_found("organization", org)


def readable_build(storage: Storage, caller: Somebody | None, org: str, pipeline: str, number: str) -> Build:
    """Return a build that the caller may read, as a member or because the pipeline is public.

    Raises ApiError for 401 and 404.
    """
    build = build_of_path(storage, org, pipeline, number)
    if build is not None and is_member(storage, caller, build.organization_id):
        return build
    readable_pipeline(storage, caller, org, pipeline)
    if build is None:
        raise ApiError.not_found("build", number)
    return build


def job_in_build(storage: Storage, build: Build, job_id: str) -> Job:
    """Return the build's job of that id. Raises ApiError ``job_not_found``."""
    job = storage.jobs.by_uuid(job_id)
    if job is None or job.build_id != build.id:
        raise ApiError.not_found("job", job_id)
    return job


REPOSITORIES = f"{ORGANIZATION}/repos"
REPOSITORY = f"{REPOSITORIES}/{{id}}"


def _user(call: Call) -> User:
    if call.caller is None or isinstance(call.caller, HostOwner):
        raise ApiError.unauthorized("this is about the caller's own account: say whose with a token")
    return call.caller.user


ThisUser = Annotated[User, Found(_user, ())]
"""The caller."""


def _caller(call: Call) -> Caller:
    _user(call)
    if not isinstance(call.caller, Caller):
        raise TypeError("a user is a caller")
    return call.caller


ThisCaller = Annotated[Caller, Found(_caller, ())]
"""The caller with the token of the call."""


def _named_user(call: Call, email: str) -> User:
    found = call.storage.users.by_email(email)
    if found is None:
        raise UserUnknown(email)
    return found


NamedUser = Annotated[User, Found(_named_user, ())]
"""The user with the address ``{email}``, for operations of the owner of the host. Raises UserUnknown."""


def _membership(call: Call, org: str) -> Membership:
    return Membership(*member_organization(call.storage, call.caller, org))


ThisMembership = Annotated[Membership, Found(_membership, ("organization_not_found",))]
"""The caller as a member of ``{org}``."""


def _pipeline(call: Call, member: ThisMembership, pipeline: str) -> Pipeline:
    return member_pipeline(call.storage, member.organization.id, pipeline)


ThisPipeline = Annotated[Pipeline, Found(_pipeline, ("pipeline_not_found",))]
"""The pipeline ``{pipeline}`` of the organization ``{org}``, of which the caller is a member."""


def _readable_pipeline(call: Call, org: str, pipeline: str) -> Pipeline:
    return readable_pipeline(call.storage, call.caller, org, pipeline)


ReadablePipeline = Annotated[Pipeline, Found(_readable_pipeline, _PIPELINE_ERRORS)]
"""The pipeline ``{pipeline}``, whose builds the caller may read."""


def _published_pipeline(call: Call, org: str, pipeline: str) -> Pipeline:
    return published_pipeline(call.storage, call.caller, org, pipeline)


PublishedPipeline = Annotated[Pipeline, Found(_published_pipeline, _PIPELINE_ERRORS)]
"""The pipeline ``{pipeline}``, whose latest artifacts the caller may read."""


def _build(call: Call, org: str, pipeline: str, number: str) -> Build:
    return member_build(call.storage, call.caller, org, pipeline, number)


ThisBuild = Annotated[Build, Found(_build, _BUILD_ERRORS)]
"""The build ``{number}`` of the pipeline ``{pipeline}``, of whose organization the caller is a member."""


def _readable_build(call: Call, org: str, pipeline: str, number: str) -> Build:
    return readable_build(call.storage, call.caller, org, pipeline, number)


ReadableBuild = Annotated[Build, Found(_readable_build, _BUILD_ERRORS)]
"""The build ``{number}`` of the pipeline ``{pipeline}``, which the caller may read."""


def _job(call: Call, build: ThisBuild, job_id: str) -> Job:
    return job_in_build(call.storage, build, job_id)


ThisJob = Annotated[Job, Found(_job, ("job_not_found",))]
"""The job ``{job_id}`` of `ThisBuild`."""


def _readable_job(call: Call, build: ReadableBuild, job_id: str) -> Job:
    return job_in_build(call.storage, build, job_id)


ReadableJob = Annotated[Job, Found(_readable_job, ("job_not_found",))]
"""The job ``{job_id}`` of `ReadableBuild`."""


def _repository(call: Call, member: ThisMembership, id: str) -> Repository:
    return connected_repository(call.storage, member.organization.id, id)


def connected_repository(storage: Storage, organization_id: int, uuid: str) -> Repository:
    """Return a repository of an organization. Raises ApiError ``repo_not_found``."""
    found = next((each for each in storage.repositories.of_organization(organization_id) if each.uuid == uuid), None)
    if found is None:
        raise ApiError.not_found("repo", uuid)
    return found


ThisRepository = Annotated[Repository, Found(_repository, ("repo_not_found",))]
"""The connected repository ``{id}`` of the organization ``{org}``, of which the caller is a member."""
