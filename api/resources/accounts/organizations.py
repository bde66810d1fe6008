"""The caller's organizations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import storage
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, RequiredText, StoredRecord, Text, Timestamp
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import NameUnusable, Storage, TooManyOrganizations

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.paging import Pager

__all__ = ["CreateOrganizationRequest", "OrganizationRecord", "OrganizationsResource"]


class OrganizationRecord(StoredRecord):
    """An organization."""

    slug: str
    name: str
    url: str
    created_at: Timestamp

    @classmethod
    def of(cls, organization: storage.Organization) -> OrganizationRecord:
        """Return the record of a stored organization."""
        return cls.showing(organization)


class CreateOrganizationRequest(RequestBody):
    """The body of ``POST /api/v0/organizations``; the slug is made from the name."""

    name: RequiredText
    url: Text | None = None


class OrganizationsResource:
    """``/api/v0/organizations`` and ``/api/v0/organizations/{org}``."""

    def __init__(self, storage: Storage, access: Access, pager: Pager, most_owned: int) -> None:
        self._storage = storage
        self._access = access
        self._pager = pager
        self._most_owned = most_owned

    @operation(
        "listOrganizations",
        Answer(200, "A page of organizations.", PageRecord[OrganizationRecord]),
        errors=PAGE_ERRORS,
        parameters=PAGE_PARAMETERS,
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the caller's organizations, oldest first."""
        user = self._access.caller(req).user
        page = partial(self._storage.organizations.page, user.id)
        self._pager.answer(req, resp, f"organizations/{user.id}", page, OrganizationRecord.of)

    @operation(
        "createOrganization",
        Answer(201, "The organization.", OrganizationRecord),
        errors=("organization_limit_reached",),
        body=CreateOrganizationRequest,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create an organization, which the caller owns."""
        user = self._access.caller(req).user
        body = read_body(req, CreateOrganizationRequest)
        try:
            organization = self._storage.organizations.create(body.name, body.url or "", user.id, self._most_owned)
        except NameUnusable:
            raise ApiError("invalid_body", "name: expected at least one letter a-z or digit") from None
        except TooManyOrganizations as error:
            raise ApiError("organization_limit_reached", str(error)) from None
        answer(resp, OrganizationRecord.of(organization), status=201)

    @operation(
        "getOrganization",
        Answer(200, "The organization.", OrganizationRecord),
        errors=("organization_not_found",),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Get an organization that the caller is a member of."""
        answer(resp, OrganizationRecord.of(self._access.member(req, org).organization))
