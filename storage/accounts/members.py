"""Members of organizations and changes of their roles (wire-decisions.md, "Members and invites")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Columns, Query, Write, first, slot
from storage.errors import LastOwner, MemberNotFound, RoleInsufficient
from storage.models import MembershipRow, UserRow
from storage.records import Member, Role

if TYPE_CHECKING:
    from storage.database.connection import Database

_MEMBER = Columns.of(Member, UserRow, user_id=UserRow.id, role=MembershipRow.role)


class Members:
    """Memberships. Each change is checked and made in one transaction. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        of_organization = MembershipRow.organization == slot("organization_id")
        members = MembershipRow.select(*_MEMBER.selected).join(UserRow).where(of_organization)
        of_user = MembershipRow.user == slot("user_id")
        self._all = Query(database, members, _MEMBER)
        self._by_uuid = Query(database, members.where(UserRow.uuid == slot("uuid")), _MEMBER)
        self._by_id = Query(database, members.where(of_user), _MEMBER)
        self._another_owner = Query(
            database,
            MembershipRow.select(MembershipRow.user)
            .where(of_organization, MembershipRow.role == Role.OWNER, MembershipRow.user != slot("user_id"))
            .limit(1),
            first,
        )
        self._change = Write(
            database, MembershipRow.update({MembershipRow.role: slot("role")}).where(of_organization, of_user)
        )
        self._remove = Write(database, MembershipRow.delete().where(of_organization, of_user))

    def all(self, organization_id: int) -> list[Member]:
        """Return an organization's members: owners, admins, then members, each group by e-mail address."""
        ranks = list(Role)
        found = self._all.all(organization_id=organization_id)
        return sorted(found, key=lambda member: (ranks.index(member.role), member.email))

    def by_uuid(self, organization_id: int, uuid: str) -> Member | None:
        """Return a member by the user's UUID."""
        return self._by_uuid.one(organization_id=organization_id, uuid=uuid)

    def change(self, organization_id: int, uuid: str, role: Role, actor_id: int) -> Member:
        """Change a member's role on behalf of the user ``actor_id``; return the member.

        Raises MemberNotFound, RoleInsufficient or LastOwner.
        """
        with self._database.write():
            member = self._target(organization_id, uuid)
            self._require(organization_id, actor_id, Role.OWNER if Role.OWNER in {member.role, role} else Role.ADMIN)
            if role is not Role.OWNER:
                self._keep_an_owner(organization_id, member)
            self._change.run(organization_id=organization_id, user_id=member.user_id, role=role)
            return self._target(organization_id, uuid)

    def remove(self, organization_id: int, uuid: str, actor_id: int) -> None:
        """Remove a member on behalf of the user ``actor_id``, who may be the member.

        Raises MemberNotFound, RoleInsufficient or LastOwner.
        """
        with self._database.write():
            member = self._target(organization_id, uuid)
            if member.user_id != actor_id:
                self._require(organization_id, actor_id, Role.OWNER if member.role is Role.OWNER else Role.ADMIN)
            self._keep_an_owner(organization_id, member)
            self._remove.run(organization_id=organization_id, user_id=member.user_id)

    def _target(self, organization_id: int, uuid: str) -> Member:
        member = self.by_uuid(organization_id, uuid)
        if member is None:
            raise MemberNotFound("the organization has no member with this id")
        return member

    def _require(self, organization_id: int, actor_id: int, needed: Role) -> None:
        actor = self._by_id.one(organization_id=organization_id, user_id=actor_id)
        if actor is None or not actor.role.covers(needed):
            raise RoleInsufficient(needed)

    def _keep_an_owner(self, organization_id: int, member: Member) -> None:
        if member.role is not Role.OWNER:
            return
        if self._another_owner.one(organization_id=organization_id, user_id=member.user_id) is None:
            raise LastOwner("the organization would have no owner: make another member an owner first")
