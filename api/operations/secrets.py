"""Secrets of organizations and pipelines: set and deleted here, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PUT, Call, Found, operation
from api.operations.things import ORGANIZATION, PIPELINE, ThisMembership, ThisPipeline
from storage import Role, Secret, SecretInvalid, SecretScope, immutable

if TYPE_CHECKING:
    from api.fields import SecretValue

_OF_ORGANIZATION = f"{ORGANIZATION}/secrets"
_OF_PIPELINE = f"{PIPELINE}/secrets"
_LISTED = "The secrets, without their values."
_SET = "The secret, without its value."
_DELETED = "The secret is deleted."
_NOT_FOUND = ("secret_not_found",)

SecretList = Annotated[list[Secret], "The secrets of an organization or of a pipeline."]


@immutable
class SetSecretRequest:
    """The body of ``PUT …/secrets/{name}``; the value has 1 byte to 64 KiB of UTF-8, without NUL."""

    value: SecretValue


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
    "deleteOrganizationSecret",
    DELETE,
    f"{_OF_ORGANIZATION}/{{name}}",
    _DELETED,
    status=204,
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
    "deletePipelineSecret",
    DELETE,
    f"{_OF_PIPELINE}/{{name}}",
    _DELETED,
    status=204,
    role=Role.ADMIN,
    errors=_NOT_FOUND,
)
def delete_pipeline_secret(call: Call, scope: PipelineScope, name: str) -> None:
    """Delete a secret of the pipeline; needs the role admin.

    Jobs that already run with it keep it.
    """
    _delete(call, scope, name)


def _set(call: Call, scope: SecretScope, name: str, body: SetSecretRequest) -> Secret:
    try:
        return call.storage.secrets.put(scope, name, body.value)
    except SecretInvalid as error:
        raise ApiError("invalid_body", str(error)) from None


def _delete(call: Call, scope: SecretScope, name: str) -> None:
    if not call.storage.secrets.remove(scope, name):
        raise ApiError.not_found("secret", name)
