"""Organizations and their members."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.accounts.slugs import RESERVED_SLUGS, slug_candidates, slugify
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import NameUnusable, TooManyOrganizations
from storage.models import MembershipRow, OrganizationRow
from storage.records import Organization, OrganizationChanges, Page, Role

if TYPE_CHECKING:
    from typing import Unpack

    from storage.database.connection import Database

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
        self._by_id = Query(database, organizations.where(OrganizationRow.id == slot("id")), ORGANIZATION)
        self._by_slug = Query(
            database,
            organizations.where(OrganizationRow.slug == slot("slug"), OrganizationRow.closed_at.is_null()),
            ORGANIZATION,
        )
        self._for_member = Query(database, members.where(of_user, OrganizationRow.slug == slot("slug")), _MEMBERSHIP)
        self._page = Query(
            database,
            organizations.join(MembershipRow)
            .where(of_user, MembershipRow.organization > slot("after"))
            .order_by(MembershipRow.organization)
            .limit(slot("limit")),
            ORGANIZATION,
        )
        self._role = Query(
            database,
            MembershipRow.select(MembershipRow.role).where(
                of_user, MembershipRow.organization == slot("organization_id")
            ),
            Columns(Role, MembershipRow.role),
        )
        self._owned = Query(
            database,
            MembershipRow.select(peewee.fn.COUNT(MembershipRow.organization))
            .join(OrganizationRow)
            .where(of_user, MembershipRow.role == Role.OWNER, OrganizationRow.closed_at.is_null()),
            first,
        )
        self._slug_taken = Query(
            database, OrganizationRow.select(OrganizationRow.id).where(OrganizationRow.slug == slot("slug")), first
        )
        self._insert = Write(
            database,
            insert_into(
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
            ),
        )
        self._all = Query(
            database,
            organizations.where(OrganizationRow.closed_at.is_null()).order_by(OrganizationRow.id),
            ORGANIZATION,
        )
        self._configure = Write(
            database,
            OrganizationRow.update({getattr(OrganizationRow, name): slot(name) for name in _CHANGEABLE}).where(
                OrganizationRow.id == slot("id")
            ),
        )
        self._insert_membership = Write(database, insert_into(MembershipRow))

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
