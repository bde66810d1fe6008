"""Invites to an organization (wire-decisions.md, "Members and invites")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

import storage
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, StoredRecord, Text, Timestamp, Uuid, Value
from api.openapi.operations import Answer, operation
from api.resources.accounts.organizations import OrganizationRecord
from api.roles import INVITABLE, InvitedRole, parse_role
from storage import (
    EmailInvalid,
    InviteInvalid,
    InviteUnacceptable,
    JsonModel,
    Role,
    Storage,
    TooManyInvites,
    email_address,
)

if TYPE_CHECKING:
    import falcon

    from actors.mail import Mails
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits

__all__ = ["AcceptInviteRequest", "CreateInviteRequest", "InviteListRecord", "InviteRecord", "InvitesResource"]


class InviteRecord(StoredRecord):
    """An invite; ``token`` is shown when the invite is created and is null afterwards."""

    id: Uuid
    email: str
    role: Role
    expires_at: Timestamp
    token: str | None

    @classmethod
    def of(cls, invite: storage.Invite, token: str | None = None) -> InviteRecord:
        """Return the record of a stored invite."""
        return cls.showing(invite, id=invite.uuid, token=token)


class InviteListRecord(JsonModel):
    """The invites that can still be accepted, oldest first."""

    data: list[InviteRecord]


class CreateInviteRequest(RequestBody):
    """The body of ``POST …/invites``; case and surrounding spaces of the address are ignored."""

    email: Annotated[Text, Field(examples=["grace@example.org"])]
    role: InvitedRole


class AcceptInviteRequest(RequestBody):
    """The body of ``POST /api/v0/invites/accept``."""

    token: Value


class InvitesResource:
    """``/api/v0/organizations/{org}/invites``, the paths below it, and ``/api/v0/invites/accept``."""

    def __init__(self, storage: Storage, access: Access, limits: RateLimits, mails: Mails, most_a_day: int) -> None:
        self._storage = storage
        self._access = access
        self._limits = limits
        self._mails = mails
        self._most_a_day = most_a_day

    @operation(
        "listInvites",
        Answer(200, "The pending invites, without their tokens.", InviteListRecord),
        errors=("organization_not_found",),
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the organization's pending invites, oldest first."""
        organization = self._access.member(req, org).organization
        found = self._storage.invites.pending(organization.id)
        answer(resp, InviteListRecord(data=[InviteRecord.of(invite) for invite in found]))

    @operation(
        "createInvite",
        Answer(201, "The invite with its token, which is shown only now.", InviteRecord),
        errors=("organization_not_found", "insufficient_org_role", "invalid_role", "invite_invalid", "rate_limited"),
        body=CreateInviteRequest,
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Invite an e-mail address; the service e-mails the token if it can."""
        member = self._access.member(req, org, at_least=Role.ADMIN)
        body = read_body(req, CreateInviteRequest)
        role = parse_role(body.role, *INVITABLE)
        try:
            draft = self._storage.invites.draft(email_address(body.email), role)
            with self._storage.transaction():
                invite = self._storage.invites.create(
                    member.organization.id, member.caller.user.id, draft, self._most_a_day
                )
                self._mails.invite(
                    invite.email,
                    member.caller.user.email,
                    member.organization.slug,
                    invite.role,
                    draft.token,
                    invite.expires_at,
                )
        except EmailInvalid as error:
            raise ApiError("invite_invalid", f"email: expected one address such as ada@example.org: {error}") from None
        except InviteInvalid as error:
            raise ApiError("invite_invalid", str(error)) from None
        except TooManyInvites as error:
            raise ApiError("rate_limited", str(error), headers={"Retry-After": str(error.retry_in)}) from None
        resp.cache_control = ["no-store"]
        answer(resp, InviteRecord.of(invite, draft.token), status=201)

    @operation(
        "revokeInvite",
        Answer(204, "The invite is revoked."),
        errors=("organization_not_found", "insufficient_org_role", "invite_not_found"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Revoke a pending invite."""
        member = self._access.member(req, org, at_least=Role.ADMIN)
        if not self._storage.invites.revoke(member.organization.id, id):
            raise ApiError("invite_not_found", "the organization has no pending invite with this ID")
        resp.status = 204

    @operation(
        "acceptInvite",
        Answer(200, "The organization, of which the caller is now a member.", OrganizationRecord),
        errors=("invite_unacceptable",),
        body=AcceptInviteRequest,
    )
    def on_post_accept(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Accept an invite that was sent to the caller's e-mail address."""
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        body = read_body(req, AcceptInviteRequest)
        try:
            organization = self._storage.invites.accept(body.token, caller.user)
        except InviteUnacceptable as error:
            raise ApiError("invite_unacceptable", str(error)) from None
        answer(resp, OrganizationRecord.of(organization))
