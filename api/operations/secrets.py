"""Secrets of organizations and pipelines: set and deleted here, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from api.body import ABSENT, given
from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PATCH, PUT, Call, Found, done, operation
from api.operations.things import ORGANIZATION, PIPELINE, ThisMembership, ThisPipeline
from storage import Role, Secret, SecretInvalid, SecretLimitChanges, SecretScope, described, immutable

if TYPE_CHECKING:
    from api.fields import LimitEvents, LimitPatterns, SecretSource, SecretValue

_OF_ORGANIZATION = f"{ORGANIZATION}/secrets"
_OF_PIPELINE = f"{PIPELINE}/secrets"
_LISTED = "The secrets, without their values."
_SET = "The secret, without its value."
_LIMITED = "The secret with its limits as they are now."
_BRANCHES = "A branch whose head may have the secret, as the service fetched it; * stands for any characters."
_TAGS = "A tag that may have the secret; * stands for any characters."
_EVENTS = "An event whose builds may have the secret."
_ENVIRONMENTS = "An environment, named by a job's gate, that may have the secret; * stands for any characters."
_PIPELINES = "A pipeline that may have the secret, by its slug; * stands for any characters."
_SOURCE = "Where the value is fetched from as a job starts, by the job's identity: Vault or OpenBao, or any address."
_DELETED = "The secret is deleted."
_NOT_FOUND = ("secret_not_found",)

SecretList = Annotated[list[Secret], "The secrets of an organization or of a pipeline."]


@immutable
class SetSecretRequest:
    """The body of ``PUT …/secrets/{name}``: a ``value`` or a ``source``.

    A value has 1 byte to 64 KiB of UTF-8, without NUL.

    Limits that are absent stay as they are; an empty list takes one away.
    """

    value: SecretValue = ABSENT
    source: SecretSource = described(_SOURCE, default=None)
    branches: LimitPatterns = described(_BRANCHES, default=ABSENT)
    tags: LimitPatterns = described(_TAGS, default=ABSENT)
    events: LimitEvents = described(_EVENTS, default=ABSENT)
    environments: LimitPatterns = described(_ENVIRONMENTS, default=ABSENT)
    pipelines: LimitPatterns = described(_PIPELINES, default=ABSENT)


@immutable
class LimitSecretRequest:
    """The body of ``PATCH …/secrets/{name}``.

    Limits that are absent stay as they are; an empty list takes one away.
    """

    branches: LimitPatterns = described(_BRANCHES, default=ABSENT)
    tags: LimitPatterns = described(_TAGS, default=ABSENT)
    events: LimitEvents = described(_EVENTS, default=ABSENT)
    environments: LimitPatterns = described(_ENVIRONMENTS, default=ABSENT)
    pipelines: LimitPatterns = described(_PIPELINES, default=ABSENT)


def _of_organization(membership: ThisMembership) -> SecretScope:
    return SecretScope(membership.organization.id)


def _of_pipeline(pipeline: ThisPipeline) -> SecretScope:
    return SecretScope(pipeline.organization_id, pipeline.id)


OrganizationScope = Annotated[SecretScope, Found(_of_organization, ())]
PipelineScope = Annotated[SecretScope, Found(_of_pipeline, ())]


@operation("listOrganizationSecrets", GET, _OF_ORGANIZATION, _LISTED)
def list_organization_secrets(call: Call, scope: OrganizationScope) -> SecretList:
    """List the names of the organization's secrets."""
    return call.storage.secrets.names(scope)


@operation("setOrganizationSecret", PUT, f"{_OF_ORGANIZATION}/{{name}}", _SET, role=Role.ADMIN)
def set_organization_secret(call: Call, scope: OrganizationScope, name: str, body: SetSecretRequest) -> Secret:
    """Set a secret for every pipeline of the organization; needs the role admin."""
    return _set(call, scope, name, body)


@operation(
    "limitOrganizationSecret",
    PATCH,
    f"{_OF_ORGANIZATION}/{{name}}",
    _LIMITED,
    role=Role.ADMIN,
    errors=_NOT_FOUND,
)
def limit_organization_secret(call: Call, scope: OrganizationScope, name: str, body: LimitSecretRequest) -> Secret:
    """Change the builds that may have a secret of the organization; needs the role admin.

    Its value stays. A build that nobody verified never matches a limit of branches or tags.
    """
    return _limit(call, scope, name, body)


@operation(
    "deleteOrganizationSecret",
    DELETE,
    f"{_OF_ORGANIZATION}/{{name}}",
    done(_DELETED),
    role=Role.ADMIN,
    errors=_NOT_FOUND,
)
def delete_organization_secret(call: Call, scope: OrganizationScope, name: str) -> None:
    """Delete a secret of the organization; needs the role admin.

    Jobs that already run with it keep it.
    """
    _delete(call, scope, name)


@operation("listPipelineSecrets", GET, _OF_PIPELINE, _LISTED)
def list_pipeline_secrets(call: Call, scope: PipelineScope) -> SecretList:
    """List the names of the pipeline's own secrets."""
    return call.storage.secrets.names(scope)


@operation("setPipelineSecret", PUT, f"{_OF_PIPELINE}/{{name}}", _SET, role=Role.ADMIN)
def set_pipeline_secret(call: Call, scope: PipelineScope, name: str, body: SetSecretRequest) -> Secret:
    """Set a secret of the pipeline, which overrides the organization's; needs the role admin."""
    return _set(call, scope, name, body)


@operation(
    "limitPipelineSecret",
    PATCH,
    f"{_OF_PIPELINE}/{{name}}",
    _LIMITED,
    role=Role.ADMIN,
    errors=_NOT_FOUND,
)
def limit_pipeline_secret(call: Call, scope: PipelineScope, name: str, body: LimitSecretRequest) -> Secret:
    """Change the builds that may have a secret of the pipeline; needs the role admin.

    Its value stays. A build that nobody verified never matches a limit of branches or tags.
    """
    return _limit(call, scope, name, body)


@operation(
    "deletePipelineSecret", DELETE, f"{_OF_PIPELINE}/{{name}}", done(_DELETED), role=Role.ADMIN, errors=_NOT_FOUND
)
def delete_pipeline_secret(call: Call, scope: PipelineScope, name: str) -> None:
    """Delete a secret of the pipeline; needs the role admin.

    Jobs that already run with it keep it.
    """
    _delete(call, scope, name)


def _set(call: Call, scope: SecretScope, name: str, body: SetSecretRequest) -> Secret:
    source = body.source
    if ("value" in given(body)) == (source is not None):
        raise ApiError("invalid_body", "value: expected either a value or a source, and only one of them")
    try:
        if source is not None:
            return call.storage.secrets.put_source(scope, name, source, _changes(body))
        return call.storage.secrets.put(scope, name, body.value, _changes(body))
    except SecretInvalid as error:
        raise ApiError("invalid_body", str(error)) from None


def _limit(call: Call, scope: SecretScope, name: str, body: LimitSecretRequest) -> Secret:
    try:
        changed = call.storage.secrets.limit(scope, name, _changes(body))
    except SecretInvalid as error:
        raise ApiError("invalid_body", str(error)) from None
    if changed is None:
        raise ApiError.not_found("secret", name)
    return changed


def _changes(body: SetSecretRequest | LimitSecretRequest) -> SecretLimitChanges:
    changes: Any = {name: value for name, value in given(body).items() if name not in {"value", "source"}}
    return changes  # type: ignore[no-any-return] # the fields of both bodies


def _delete(call: Call, scope: SecretScope, name: str) -> None:
    if not call.storage.secrets.remove(scope, name):
        raise ApiError.not_found("secret", name)
