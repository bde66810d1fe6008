"""Invites to an organization (wire-decisions.md, "Members and invites")."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Self

import storage
from api.errors.catalog import ApiError
from api.operations.members import parse_role
from api.operations.operation import ACCOUNT, DELETE, GET, POST, Call, Whole, done, operation, shown_once
from api.operations.things import ORGANIZATION, ThisMembership, ThisUser
from storage import (
    EmailInvalid,
    InviteInvalid,
    InviteUnacceptable,
    Organization,
    Role,
    TooManyInvites,
    described,
    email_address,
    immutable,
)

if TYPE_CHECKING:
    from api.fields import InvitedEmail, InvitedRole, Value

INVITABLE = (Role.ADMIN, Role.MEMBER)
"""The roles that an invite may give."""

_INVITES = f"{ORGANIZATION}/invites"


@immutable
class Invite:
    """An invite; ``token`` is shown when the invite is created and is null afterwards."""

    uuid: str
    email: str
    role: Role
    expires_at: datetime
    token: str | None

    @classmethod
    def of(cls, invite: storage.Invite, token: str | None = None) -> Self:
        """Return the record of a stored invite."""
        return cls(invite.uuid, invite.email, invite.role, invite.expires_at, token)


@immutable
class CreateInviteRequest:
    """The body of ``POST …/invites``; case and surrounding spaces of the address are ignored."""

    email: InvitedEmail
    role: InvitedRole = described("Members build, admins also manage members and settings.", choices=INVITABLE)


@immutable
class AcceptInviteRequest:
    """The body of ``POST /api/v0/invites/accept``."""

    token: Value


InviteList = Annotated[list[Invite], Whole("The invites that can still be accepted, oldest first.")]


@operation("listInvites", GET, _INVITES, "The pending invites, without their tokens.")
def list_invites(call: Call, membership: ThisMembership) -> InviteList:
    """List the organization's pending invites, oldest first."""
    return [Invite.of(each) for each in call.storage.invites.pending(membership.organization.id)]


@operation(
    "createInvite",
    POST,
    _INVITES,
    shown_once("The invite with its token, which is shown only now.", status=201),
    role=Role.ADMIN,
    errors=("invalid_role", "invite_invalid", "rate_limited"),
)
def create_invite(call: Call, membership: ThisMembership, user: ThisUser, body: CreateInviteRequest) -> Invite:
    """Invite an e-mail address; the service e-mails the token if it can."""
    role, organization = parse_role(body.role, *INVITABLE), membership.organization
    invites, mails, limits = call.storage.invites, call.service.mails, call.service.limits
    if mails is None or limits is None:
        raise NotImplementedError("only the service, in its own process, invites")
    try:
        draft = invites.draft(email_address(body.email), role)
        with call.storage.transaction():
            made = invites.create(organization.id, user.id, draft, limits.invites_per_day)
            mails.invite(made.email, user.email, organization.slug, made.role, draft.token, made.expires_at)
    except EmailInvalid as error:
        raise ApiError("invite_invalid", f"email: expected one address such as ada@example.org: {error}") from None
    except InviteInvalid as error:
        raise ApiError("invite_invalid", str(error)) from None
    except TooManyInvites as error:
        raise ApiError("rate_limited", str(error), headers={"Retry-After": str(error.retry_in)}) from None
    return Invite.of(made, draft.token)


@operation(
    "revokeInvite",
    DELETE,
    f"{_INVITES}/{{id}}",
    done("The invite is revoked."),
    role=Role.ADMIN,
    errors=("invite_not_found",),
)
def revoke_invite(call: Call, membership: ThisMembership, id: str) -> None:
    """Revoke a pending invite."""
    if not call.storage.invites.revoke(membership.organization.id, id):
        raise ApiError("invite_not_found", "the organization has no pending invite with this ID")


@operation(
    "acceptInvite",
    POST,
    "/api/v0/invites/accept",
    "The organization, of which the caller is now a member.",
    errors=("invite_unacceptable",),
    callers=ACCOUNT,
)
def accept_invite(call: Call, user: ThisUser, body: AcceptInviteRequest) -> Organization:
    """Accept an invite that was sent to the caller's e-mail address."""
    try:
        return call.storage.invites.accept(body.token, user)
    except InviteUnacceptable as error:
        raise ApiError("invite_unacceptable", str(error)) from None
