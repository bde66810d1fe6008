"""Environments of an organization, and the answers to the gates of jobs that deploy to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.body import (
    ABSENT,
    Submission,
    given,
)
from api.builds.bodies import RollBackRequest  # noqa: TC001 - read in hints, and by the command
from api.errors.catalog import ApiError
from api.operations.builds import NOT_REPEATED, BuildRecord, record_of_build
from api.operations.jobs import JobRecord, job_record
from api.operations.operation import DELETE, GET, PATCH, POST, Call, Found, HostOwner, Span, created, done, operation
from api.operations.things import JOB, ORGANIZATION, ThisBuild, ThisJob, ThisMembership
from storage import (
    GATE_SECONDS,
    DeployedEnvironment,
    Deployment,
    Environment,
    EnvironmentExists,
    GateNotAwaited,
    NewEnvironment,
    Page,
    Role,
    TooManyEnvironments,
    described,
    immutable,
)

if TYPE_CHECKING:
    from api.fields import Approvers, EnvironmentName, LongText, PageUrl
    from storage import Build, Job

_ENVIRONMENTS = f"{ORGANIZATION}/environments"
_ENVIRONMENT = f"{_ENVIRONMENTS}/{{name}}"
_URL = "The address of what is deployed there, to show."
_APPROVERS = "Members by e-mail address, and roles, who approve its jobs; without any, none has to."
_NOT_AUTHOR = "Whether the people of a build may not approve its jobs."
_GATE_SECONDS = "The seconds that people have to approve a job."
_BOUNDS = (60, 30 * 24 * 3600)
_NOT_ANSWERED = ("gate_not_awaited", "not_an_approver")


@immutable
class CreateEnvironmentRequest:
    """The body of ``POST …/environments``."""

    name: EnvironmentName = described("Its name, of a-z, 0-9 and -.")
    url: PageUrl | None = described(_URL, default=None, word="URL")
    approvers: Approvers = described(_APPROVERS, default=())
    not_author: bool = described(_NOT_AUTHOR, default=False)
    gate_seconds: int = described(_GATE_SECONDS, default=GATE_SECONDS, bounds=_BOUNDS)


@immutable
class UpdateEnvironmentRequest:
    """The body of ``PATCH …/environments/{name}``. Absent fields stay as they are."""

    url: PageUrl | None = described(_URL, default=ABSENT, word="URL")
    approvers: Approvers = described(_APPROVERS, default=ABSENT)
    not_author: bool = described(_NOT_AUTHOR, default=ABSENT)
    gate_seconds: int = described(_GATE_SECONDS, default=ABSENT, bounds=_BOUNDS)


@immutable
class AnswerGateRequest:
    """The body of the answer to a gate: a reason, which the job shows."""

    reason: LongText | None = described("The reason, which the job shows.", default=None, word="TEXT")


def _environment(call: Call, member: ThisMembership, name: str) -> Environment:
    found = call.storage.environments.named(member.organization.id, name)
    if found is None:
        raise ApiError.not_found("environment", name)
    return found


ThisEnvironment = Annotated[Environment, Found(_environment, ("environment_not_found",))]
"""The environment ``{name}`` of the organization ``{org}``, of which the caller is a member."""


@operation("listEnvironments", GET, _ENVIRONMENTS, "A page of environments.")
def list_environments(call: Call, member: ThisMembership, span: Span) -> Page[Environment]:
    """List the organization's environments, oldest first."""
    return call.storage.environments.page(member.organization.id, span.limit, span.after)


@operation(
    "createEnvironment",
    POST,
    _ENVIRONMENTS,
    created("The environment."),
    role=Role.ADMIN,
    errors=("environment_exists", "too_many_environments"),
)
def create_environment(call: Call, member: ThisMembership, body: CreateEnvironmentRequest) -> Environment:
    """Make an environment, which jobs name in their `gate`; needs the role admin."""
    new = NewEnvironment(body.name, body.url, tuple(body.approvers), body.not_author, body.gate_seconds)
    try:
        return call.storage.environments.create(member.organization.id, new)
    except EnvironmentExists as error:
        raise ApiError("environment_exists", str(error)) from None
    except TooManyEnvironments as error:
        raise ApiError("too_many_environments", str(error)) from None


@operation("getEnvironment", GET, _ENVIRONMENT, "The environment, and what is there.")
def get_environment(call: Call, environment: ThisEnvironment) -> DeployedEnvironment:
    """Get an environment: its settings, the deployment that is there now, and those that are to come."""
    return call.storage.environments.deployed(environment)


@operation("listDeployments", GET, f"{_ENVIRONMENT}/deployments", "A page of deployments.")
def list_deployments(call: Call, environment: ThisEnvironment, span: Span) -> Page[Deployment]:
    """List the jobs that deployed to an environment, or were to, newest builds first."""
    return call.storage.environments.deployments(environment, span.limit, span.after)


@operation(
    "rollBackEnvironment",
    POST,
    f"{_ENVIRONMENT}/rollback",
    created("The build that repeats the deployment."),
    errors=("nothing_to_roll_back", "deployment_not_kept", *NOT_REPEATED),
    body_required=False,
)
def roll_back_environment(
    call: Call, environment: ThisEnvironment, submission: Submission[RollBackRequest]
) -> BuildRecord:
    """Deploy again what was in the environment before, with what the earlier build made, in a new build.

    By default that is the deployment before the current one; any member can. Its job runs again, and those after it.
    The others end as they did in the earlier build, with its artifacts and outputs, and do not run. The job asks for an
    approval as always. If files that it takes are no longer kept, nothing runs: the response is 409. The source of a
    build is kept for a while; after that it is 410.
    """
    return record_of_build(call, call.creation.roll_back(call, environment, submission))


@operation("updateEnvironment", PATCH, _ENVIRONMENT, "The environment as it is now.", role=Role.ADMIN)
def update_environment(call: Call, environment: ThisEnvironment, body: UpdateEnvironmentRequest) -> Environment:
    """Change an environment; needs the role admin.

    Gates that wait ask the approvers of now; the time that they have stays.
    """
    changes = given(body)
    if "approvers" in changes:
        changes["approvers"] = tuple(changes["approvers"])
    changed = call.storage.environments.change(environment, **changes)
    if changed is None:
        raise ApiError.not_found("environment", environment.name)
    return changed


@operation("deleteEnvironment", DELETE, _ENVIRONMENT, done("The environment is deleted."), role=Role.ADMIN)
def delete_environment(call: Call, environment: ThisEnvironment) -> None:
    """Delete an environment; needs the role admin. Jobs that name it fail from now on.

    What was deployed to it stays known by its name.
    """
    if not call.storage.environments.remove(environment):
        raise ApiError.not_found("environment", environment.name)


@operation("approveJob", POST, f"{JOB}/approve", "The job, which may run.", errors=_NOT_ANSWERED, body_required=False)
def approve_job(
    call: Call, member: ThisMembership, build: ThisBuild, job: ThisJob, body: AnswerGateRequest
) -> JobRecord:
    """Let a job run that waits at the gate of its environment, whose approvers can.

    The approval is of this job of this build, and so of its commit. If the job runs again, it is asked for again.
    """
    return _answer(call, member.organization.id, build, job, body.reason, approved=True)


@operation("rejectJob", POST, f"{JOB}/reject", "The job, which fails.", errors=_NOT_ANSWERED, body_required=False)
def reject_job(
    call: Call, member: ThisMembership, build: ThisBuild, job: ThisJob, body: AnswerGateRequest
) -> JobRecord:
    """Fail a job that waits at the gate of its environment.

    Its approvers can, also if they are people of the build.
    """
    return _answer(call, member.organization.id, build, job, body.reason, approved=False)


def _answer(
    call: Call, organization_id: int, build: Build, job: Job, reason: str | None, *, approved: bool
) -> JobRecord:
    storage = call.storage
    try:
        with storage.transaction():  # so that nobody answers who was removed, or is no approver, just before
            _check(call, organization_id, build, job, approved=approved)
            storage.gates.decide(job.id, approved=approved, by=call.actor, reason=reason or None)
    except GateNotAwaited as error:
        raise ApiError("gate_not_awaited", f"{job.step_key}: {error}") from None
    call.engine.gate_decided(build.id)
    return job_record(call, build, job.uuid)


def _check(call: Call, organization_id: int, build: Build, job: Job, *, approved: bool) -> None:
    """Raise ApiError ``not_an_approver`` if the caller may not answer the gate of a job."""
    from actors import people_of, refusal  # noqa: PLC0415 - commands that list need them not

    storage = call.storage
    if job.environment is None:
        raise GateNotAwaited("it has no gate")
    environment = storage.environments.named(organization_id, job.environment)
    if environment is None:
        raise GateNotAwaited(f'the environment "{job.environment}" was deleted: make it again')
    if call.caller is None or isinstance(call.caller, HostOwner):
        return
    user = call.caller.user
    role = storage.organizations.role(organization_id, user.id)
    if role is None:
        raise ApiError("not_an_approver", "you are no member of the organization any more")
    people = people_of(storage, build) if approved else frozenset[str]()
    why = refusal(environment, user.email, role, people)
    if why is not None:
        raise ApiError("not_an_approver", why)
