"""Organizations and their members."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.accounts.names import RESERVED_SLUGS, slug_candidates, slugify
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import LastOwner, MemberNotFound, NameUnusable, RoleInsufficient, TooManyOrganizations
from storage.models.accounts import MembershipRow, OrganizationRow, UserRow
from storage.records.accounts import Member, Organization, OrganizationChanges, Role

if TYPE_CHECKING:
    from typing import Unpack

    from storage.database.connection import Database
    from storage.documents import Page


ORGANIZATION = Columns.of(Organization, OrganizationRow)
_CHANGEABLE = tuple(OrganizationChanges.__annotations__)
_MEMBERSHIP = Columns(lambda organization, role: (organization, role), ORGANIZATION, MembershipRow.role)


class Organizations:
    """The owners of pipelines and ledgers, and their members. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        organizations = OrganizationRow.select(*ORGANIZATION.selected)
        members = OrganizationRow.select(*_MEMBERSHIP.selected).join(MembershipRow)
        of_user = MembershipRow.user == slot("user_id")
        self._by_id = Query(database, lambda: organizations.where(OrganizationRow.id == slot("id")), ORGANIZATION)
        self._by_slug = Query(
            database,
            lambda: organizations.where(OrganizationRow.slug == slot("slug"), OrganizationRow.closed_at.is_null()),
            ORGANIZATION,
        )
        self._for_member = Query(
            database, lambda: members.where(of_user, OrganizationRow.slug == slot("slug")), _MEMBERSHIP
        )
        self._page = Query(
            database,
            lambda: (
                organizations.join(MembershipRow)
                .where(of_user, MembershipRow.organization > slot("after"))
                .order_by(MembershipRow.organization)
                .limit(slot("limit"))
            ),
            ORGANIZATION,
        )
        self._role = Query(
            database,
            lambda: MembershipRow.select(MembershipRow.role).where(
                of_user, MembershipRow.organization == slot("organization_id")
            ),
            Columns(Role, MembershipRow.role),
        )
        self._owned = Query(
            database,
            lambda: (
                MembershipRow.select(peewee.fn.COUNT(MembershipRow.organization))
                .join(OrganizationRow)
                .where(of_user, MembershipRow.role == Role.OWNER, OrganizationRow.closed_at.is_null())
            ),
            first,
        )
        self._slug_taken = Query(
            database,
            lambda: OrganizationRow.select(OrganizationRow.id).where(OrganizationRow.slug == slot("slug")),
            first,
        )
        self._insert = Write(
            database,
            lambda: insert_into(
                OrganizationRow,
                "balance_cents",
                "fail_fast",
                "weight",
                "closed_at",
                "cancel_superseded",
                "fork_approval",
                "fork_secrets",
                "provider",
                "strict_shell",
                "find_culprits",
            ),
        )
        self._all = Query(
            database,
            lambda: organizations.where(OrganizationRow.closed_at.is_null()).order_by(OrganizationRow.id),
            ORGANIZATION,
        )
        self._configure = Write(
            database,
            lambda: OrganizationRow.update({getattr(OrganizationRow, name): slot(name) for name in _CHANGEABLE}).where(
                OrganizationRow.id == slot("id")
            ),
        )
        self._insert_membership = Write(database, lambda: insert_into(MembershipRow))

    def create(self, name: str, url: str, owner_id: int, most_owned: int | None = None) -> Organization:
        """Add an organization that a user owns; its slug, made from the name, is free and not reserved.

        Raises NameUnusable, and TooManyOrganizations if the user already owns ``most_owned``.
        """
        with self._database.write():
            if most_owned is not None and written(self._owned.one(user_id=owner_id)) >= most_owned:
                raise TooManyOrganizations(f"one account owns at most {most_owned} organizations")
            organization_id = self.add(name, name, url)
            self.add_member(organization_id, owner_id, Role.OWNER)
            return written(self._by_id.one(id=organization_id))

    def by_id(self, organization_id: int) -> Organization | None:
        """Return an organization by row id."""
        return self._by_id.one(id=organization_id)

    def by_slug(self, slug: str) -> Organization | None:
        """Return an organization by slug, without a check of membership; None if it is closed."""
        return self._by_slug.one(slug=slug)

    def all(self) -> list[Organization]:
        """Return every organization that is not closed, oldest first."""
        return self._all.all()

    def configure(self, organization_id: int, **changes: Unpack[OrganizationChanges]) -> None:
        """Change the given settings of an organization, by the host's owner."""
        with self._database.write():
            changed = replace(written(self._by_id.one(id=organization_id)), **changes)
            self._configure.run(id=organization_id, **{name: getattr(changed, name) for name in _CHANGEABLE})

    def for_member(self, user_id: int, slug: str) -> tuple[Organization, Role] | None:
        """Return an organization and the user's role in it; None if the user is not a member."""
        return self._for_member.one(user_id=user_id, slug=slug)

    def page(self, user_id: int, limit: int, after: int | None) -> Page[Organization]:
        """Return a user's organizations past the key ``after``, oldest first."""
        return self._page.page(limit, lambda organization: organization.id, user_id=user_id, after=after or 0)

    def role(self, organization_id: int, user_id: int) -> Role | None:
        """Return a user's role in an organization; None if the user is not a member."""
        return self._role.one(organization_id=organization_id, user_id=user_id)

    def add(self, slug_source: str, name: str, url: str) -> int:
        """Add an organization without members, inside the caller's transaction; return its id.

        Raises NameUnusable.
        """
        slug = slugify(slug_source)
        if not slug:
            raise NameUnusable(f'no slug can be made of "{slug_source}": use at least one letter a-z or digit')
        free = next(
            candidate
            for candidate in slug_candidates(slug)
            if candidate not in RESERVED_SLUGS and self._slug_taken.one(slug=candidate) is None
        )
        return self._insert.insert(uuid=str(uuid4()), slug=free, name=name, url=url, created_at=self._database.now())

    def add_member(self, organization_id: int, user_id: int, role: Role) -> None:
        """Add a user, who is not a member yet, to an organization."""
        with self._database.write():
            self._insert_membership.run(
                user_id=user_id, organization_id=organization_id, role=role, created_at=self._database.now()
            )


_MEMBER = Columns.of(Member, UserRow, user_id=UserRow.id, role=MembershipRow.role)


class Members:
    """Memberships of people. Each change is checked and made in one transaction. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        of_organization = MembershipRow.organization == slot("organization_id")
        members = MembershipRow.select(*_MEMBER.selected).join(UserRow).where(of_organization)
        of_user = MembershipRow.user == slot("user_id")
        people = members.where(UserRow.machine == 0)
        self._all = Query(database, lambda: people, _MEMBER)
        self._by_uuid = Query(database, lambda: people.where(UserRow.uuid == slot("uuid")), _MEMBER)
        self._by_id = Query(database, lambda: members.where(of_user), _MEMBER)
        self._another_owner = Query(
            database,
            lambda: (
                MembershipRow.select(MembershipRow.user)
                .where(of_organization, MembershipRow.role == Role.OWNER, MembershipRow.user != slot("user_id"))
                .limit(1)
            ),
            first,
        )
        self._change = Write(
            database, lambda: MembershipRow.update({MembershipRow.role: slot("role")}).where(of_organization, of_user)
        )
        self._remove = Write(database, lambda: MembershipRow.delete().where(of_organization, of_user))

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
