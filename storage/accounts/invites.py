"""Invites to organizations (wire-decisions.md, "Members and invites")."""

from __future__ import annotations

import secrets
from math import ceil
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.clock import DAY, SECOND, from_micros, to_micros
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import InviteInvalid, InviteUnacceptable, TooManyInvites
from storage.models.accounts import InviteRow, MembershipRow, OrganizationRow, UserRow
from storage.records.accounts import Invite, InviteDraft, Role
from storage.vault import hashed

if TYPE_CHECKING:
    from storage.accounts.organizations import Organizations
    from storage.database.connection import Database
    from storage.records.accounts import Organization, User

_LIFETIME = 7 * DAY
_TOKEN_BYTES = 32

_INVITE = Columns.of(Invite, InviteRow)


class Invites:
    """Invites, each for one e-mail address. Only the hash of a token is stored. Safe in any thread."""

    def __init__(self, database: Database, organizations: Organizations) -> None:
        self._database = database
        self._organizations = organizations
        invites = InviteRow.select(*_INVITE.selected)
        of_organization = InviteRow.organization == slot("organization_id")
        unused = InviteRow.accepted_at.is_null() & InviteRow.revoked_at.is_null()
        pending = of_organization & unused & (InviteRow.expires_at > slot("now"))
        self._pending = Query(database, lambda: invites.where(pending).order_by(InviteRow.id), _INVITE)
        self._pending_of = Query(
            database, lambda: InviteRow.select(InviteRow.id).where(pending, InviteRow.email == slot("email")), first
        )
        self._by_id = Query(database, lambda: invites.where(InviteRow.id == slot("id")), _INVITE)
        self._by_hash = Query(database, lambda: invites.where(InviteRow.hash == slot("hash")), _INVITE)
        self._member = Query(
            database,
            lambda: (
                MembershipRow.select(MembershipRow.user)
                .join(UserRow)
                .where(UserRow.email == slot("email"), MembershipRow.organization == slot("organization_id"))
            ),
            first,
        )
        self._closed = Query(
            database,
            lambda: OrganizationRow.select(OrganizationRow.id).where(
                OrganizationRow.id == slot("organization_id"), OrganizationRow.closed_at.is_null(is_null=False)
            ),
            first,
        )
        self._recent = Query(
            database,
            lambda: (
                InviteRow.select(InviteRow.created_at)
                .where(InviteRow.inviter == slot("inviter_id"), InviteRow.created_at > slot("since"))
                .order_by(InviteRow.created_at.desc())
                .limit(slot("limit"))
            ),
            first,
        )
        self._insert = Write(database, lambda: insert_into(InviteRow, "accepted_at", "revoked_at"))
        self._accept = Write(
            database, lambda: InviteRow.update({InviteRow.accepted_at: slot("now")}).where(InviteRow.id == slot("id"))
        )
        self._revoke = Write(
            database,
            lambda: InviteRow.update({InviteRow.revoked_at: slot("now")}).where(
                pending, InviteRow.uuid == slot("uuid")
            ),
        )

    def draft(self, email: str, role: Role) -> InviteDraft:
        """Return an invite for `create` to store, so that its e-mail can be written before."""
        expires_at = from_micros(self._database.now() + _LIFETIME)
        return InviteDraft(email, role, secrets.token_urlsafe(_TOKEN_BYTES), expires_at)

    def create(self, organization_id: int, inviter_id: int, draft: InviteDraft, most_a_day: int) -> Invite:
        """Store an invite.

        Raises InviteInvalid if the address is a member's or has a pending invite, and TooManyInvites if the inviter
        created ``most_a_day`` in the last 24 hours, revoked ones included.
        """
        email = draft.email
        with self._database.write():
            now = self._database.now()
            if self._member.one(organization_id=organization_id, email=email) is not None:
                raise InviteInvalid(f"{email} is a member already")
            if self._pending_of.one(organization_id=organization_id, email=email, now=now) is not None:
                raise InviteInvalid(f"{email} has an invite already: revoke it to send another")
            recent = self._recent.all(inviter_id=inviter_id, since=now - DAY, limit=most_a_day)
            if len(recent) >= most_a_day:
                raise TooManyInvites(most_a_day, retry_in=ceil((recent[-1] + DAY - now) / SECOND))
            invite_id = self._insert.insert(
                uuid=str(uuid4()),
                organization_id=organization_id,
                inviter_id=inviter_id,
                email=email,
                role=draft.role,
                hash=hashed(draft.token),
                created_at=now,
                expires_at=to_micros(draft.expires_at),
            )
            return written(self._by_id.one(id=invite_id))

    def pending(self, organization_id: int) -> list[Invite]:
        """Return the invites that can still be accepted, oldest first."""
        return self._pending.all(organization_id=organization_id, now=self._database.now())

    def revoke(self, organization_id: int, uuid: str) -> bool:
        """Revoke a pending invite; False if there is none with this UUID."""
        with self._database.write():
            now = self._database.now()
            return self._revoke.run(organization_id=organization_id, uuid=uuid, now=now) == 1

    def accept(self, token: str, user: User) -> Organization:
        """Make the invited user a member of the organization; return the organization.

        Raises InviteUnacceptable; its message says why.
        """
        with self._database.write():
            invite = self._by_hash.one(hash=hashed(token))
            if invite is None:
                raise InviteUnacceptable("no invite has this token: ask for a new one")
            self._check(invite, user)
            self._organizations.add_member(invite.organization_id, user.id, invite.role)
            self._accept.run(id=invite.id, now=self._database.now())
            return written(self._organizations.by_id(invite.organization_id))

    def _check(self, invite: Invite, user: User) -> None:
        organization_id = invite.organization_id
        faults = (
            (invite.email != user.email, "the invite is for another e-mail address than yours"),
            (invite.accepted_at is not None, "the invite was accepted already"),
            (invite.revoked_at is not None, "the invite was revoked"),
            (to_micros(invite.expires_at) <= self._database.now(), "the invite is over: ask for another one"),
            (self._closed.one(organization_id=organization_id) is not None, "the organization is closed"),
            (
                self._organizations.role(organization_id, user.id) is not None,
                "you are a member of the organization already",
            ),
        )
        for holds, why in faults:
            if holds:
                raise InviteUnacceptable(why)
