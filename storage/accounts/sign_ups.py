"""Sign-ups: new accounts that people make for themselves (wire-decisions.md, "Sign-in")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, first, slot
from storage.errors import SignUpClosed
from storage.models import InviteRow, OrganizationRow, UserRow
from storage.records import SignInLinkKind, SignUpMode, SignUpPolicy, User

if TYPE_CHECKING:
    from storage.accounts.sign_in_links import SignInLinks
    from storage.accounts.users import Users
    from storage.database.connection import Database


class SignUps:
    """Makes the accounts of people who may sign up. Safe in any thread.

    The first account of a service needs an owner's link. That link permits one account, whatever the policy is.
    """

    def __init__(self, database: Database, users: Users, links: SignInLinks) -> None:
        self._database = database
        self._users = users
        self._links = links
        self._any_user = Query(database, UserRow.select(UserRow.id).where(UserRow.id > 0).limit(1), first)
        self._invited = Query(
            database,
            InviteRow.select(InviteRow.id)
            .join(OrganizationRow)
            .where(
                InviteRow.email == slot("email"),
                InviteRow.accepted_at.is_null(),
                InviteRow.revoked_at.is_null(),
                InviteRow.expires_at > slot("now"),
                OrganizationRow.closed_at.is_null(),
            )
            .limit(1),
            first,
        )

    def check(self, email: str, policy: SignUpPolicy, owner_token: str | None = None) -> None:
        """Raise SignUpClosed unless a person who proved this address may make an account."""
        if owner_token is not None:
            if self._links.read(SignInLinkKind.OWNER, owner_token) is None:
                raise SignUpClosed("the owner's link is unknown, used or expired: print another one on the host")
            return
        if self._any_user.one() is None:
            raise SignUpClosed("the first account needs the owner's link, which `ci-daemon user link --owner` prints")
        domain = email.rpartition("@")[2].lower()
        if policy.domains and domain not in policy.domains:
            raise SignUpClosed(f"no one with an address at {domain} may sign up")
        match policy.mode:
            case SignUpMode.OPEN:
                return
            case SignUpMode.INVITED:
                if self._invited.one(email=email, now=self._database.now()) is None:
                    raise SignUpClosed("only those who were invited may sign up: ask a member for an invite")
            case SignUpMode.CLOSED:
                raise SignUpClosed("no one may sign up: ask the owner of the service for an account")

    def create(self, email: str, name: str, policy: SignUpPolicy, owner_token: str | None = None) -> User:
        """Make an account for a person who proved this address, in the caller's transaction if there is one.

        Uses up the owner's link. Raises SignUpClosed, EmailTaken or NameUnusable.
        """
        with self._database.write():
            self.check(email, policy, owner_token)
            if owner_token is not None:
                self._links.take(SignInLinkKind.OWNER, owner_token)
            return self._users.create(email, name)
