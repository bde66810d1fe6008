"""Secrets of organizations and pipelines: set and deleted here, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

import storage
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, StoredRecord, Timestamp
from api.openapi.operations import Answer, operation
from storage import JsonModel, Role, SecretInvalid, SecretScope, Storage

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access, Membership

__all__ = ["SecretList", "SecretRecord", "SecretsResource", "SetSecretRequest"]


class SecretRecord(StoredRecord):
    """A secret, without its value."""

    name: str
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, secret: storage.Secret) -> SecretRecord:
        """Return the record of a stored secret."""
        return cls.showing(secret)


class SecretList(JsonModel):
    """The secrets of an organization or of a pipeline."""

    data: list[SecretRecord]


class SetSecretRequest(RequestBody):
    """The body of ``PUT …/secrets/{name}``; the value has 1 byte to 64 KiB of UTF-8, without NUL."""

    value: Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 2**16, "pattern": r"^[^\u0000]*$"})]


_LISTED = Answer(200, "The secrets, without their values.", SecretList)
_SET = Answer(200, "The secret, without its value.", SecretRecord)
_DELETED = Answer(204, "The secret is deleted.")
_OF_ORGANIZATION = ("organization_not_found",)
_OF_PIPELINE = (*_OF_ORGANIZATION, "pipeline_not_found")
_ROLE = "insufficient_org_role"
_NOT_FOUND = "secret_not_found"


class SecretsResource:
    """``…/{org}/secrets``, ``…/{org}/pipelines/{pipeline}/secrets`` and the paths below them."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._secrets = storage.secrets
        self._access = access

    @operation("listOrganizationSecrets", _LISTED, errors=_OF_ORGANIZATION)
    def on_get_organization_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the names of the organization's secrets."""
        self._list(resp, self._of_organization(req, org)[1])

    @operation("setOrganizationSecret", _SET, errors=(*_OF_ORGANIZATION, _ROLE), body=SetSecretRequest)
    def on_put_organization(self, req: falcon.Request, resp: falcon.Response, org: str, name: str) -> None:
        """Set a secret for every pipeline of the organization; needs the role admin."""
        self._set(req, resp, name, *self._of_organization(req, org))

    @operation("deleteOrganizationSecret", _DELETED, errors=(*_OF_ORGANIZATION, _ROLE, _NOT_FOUND))
    def on_delete_organization(self, req: falcon.Request, resp: falcon.Response, org: str, name: str) -> None:
        """Delete a secret of the organization; needs the role admin.

        Jobs that already run with it keep it.
        """
        self._delete(resp, name, *self._of_organization(req, org))

    @operation("listPipelineSecrets", _LISTED, errors=_OF_PIPELINE)
    def on_get_pipeline_list(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str) -> None:
        """List the names of the pipeline's own secrets."""
        self._list(resp, self._of_pipeline(req, org, pipeline)[1])

    @operation("setPipelineSecret", _SET, errors=(*_OF_PIPELINE, _ROLE), body=SetSecretRequest)
    def on_put_pipeline(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, name: str) -> None:
        """Set a secret of the pipeline, which overrides the organization's; needs the role admin."""
        self._set(req, resp, name, *self._of_pipeline(req, org, pipeline))

    @operation("deletePipelineSecret", _DELETED, errors=(*_OF_PIPELINE, _ROLE, _NOT_FOUND))
    def on_delete_pipeline(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, name: str
    ) -> None:
        """Delete a secret of the pipeline; needs the role admin.

        Jobs that already run with it keep it.
        """
        self._delete(resp, name, *self._of_pipeline(req, org, pipeline))

    def _of_organization(self, req: falcon.Request, org: str) -> tuple[Membership, SecretScope]:
        member = self._access.member(req, org)
        return member, SecretScope(member.organization.id)

    def _of_pipeline(self, req: falcon.Request, org: str, pipeline: str) -> tuple[Membership, SecretScope]:
        member, found = self._access.pipeline(req, org, pipeline)
        return member, SecretScope(member.organization.id, found.id)

    def _list(self, resp: falcon.Response, scope: SecretScope) -> None:
        answer(resp, SecretList(data=[SecretRecord.of(secret) for secret in self._secrets.names(scope)]))

    def _set(
        self, req: falcon.Request, resp: falcon.Response, name: str, member: Membership, scope: SecretScope
    ) -> None:
        member.require(Role.ADMIN)
        body = read_body(req, SetSecretRequest)
        try:
            secret = self._secrets.put(scope, name, body.value)
        except SecretInvalid as error:
            raise ApiError("invalid_body", str(error)) from None
        answer(resp, SecretRecord.of(secret))

    def _delete(self, resp: falcon.Response, name: str, member: Membership, scope: SecretScope) -> None:
        member.require(Role.ADMIN)
        if not self._secrets.remove(scope, name):
            raise ApiError.not_found("secret", name)
        resp.status = 204
