"""People with an account, each with a personal organization."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from storage.database.statements import Columns, Query, Write, insert_into, slot, written
from storage.errors import EmailTaken
from storage.models.accounts import OrganizationRow, UserRow
from storage.records.accounts import Role, User

if TYPE_CHECKING:
    from storage.accounts.organizations import Organizations
    from storage.database.connection import Database

USER_COLUMNS = Columns.of(User, UserRow, personal_org_slug=OrganizationRow.slug)


class Users:
    """People with an account. Safe in any thread."""

    def __init__(self, database: Database, organizations: Organizations) -> None:
        self._database = database
        self._organizations = organizations
        users = UserRow.select(*USER_COLUMNS.selected).join(OrganizationRow)
        self._by_id = Query(database, lambda: users.where(UserRow.id == slot("id")), USER_COLUMNS)
        people = users.where(UserRow.machine == 0)
        self._by_uuid = Query(database, lambda: people.where(UserRow.uuid == slot("uuid")), USER_COLUMNS)
        self._by_email = Query(database, lambda: people.where(UserRow.email == slot("email")), USER_COLUMNS)
        self._all = Query(
            database, lambda: people.where(UserRow.closed_at.is_null()).order_by(UserRow.id), USER_COLUMNS
        )
        self._insert = Write(database, lambda: insert_into(UserRow, "closed_at", "machine"))
        self._rename = Write(
            database, lambda: UserRow.update({UserRow.name: slot("name")}).where(UserRow.id == slot("id"))
        )

    def create(self, email: str, name: str) -> User:
        """Add a user with a personal organization, whose slug comes from the e-mail address.

        Raises EmailTaken, and NameUnusable if no slug can be made of the address.
        """
        email = _normalized(email)
        with self._database.write():
            if self._by_email.one(email=email) is not None:
                raise EmailTaken(f"there is a user with the e-mail address {email} already: choose another one")
            personal = self._organizations.add(email, name or email, url="")
            user_id = self._insert.insert(
                uuid=str(uuid4()),
                email=email,
                name=name,
                personal_organization_id=personal,
                created_at=self._database.now(),
            )
            self._organizations.add_member(personal, user_id, Role.OWNER)
            return written(self.by_id(user_id))

    def rename(self, user_id: int, name: str) -> User:
        """Change a user's name; return the user."""
        with self._database.write():
            self._rename.run(id=user_id, name=name)
            return written(self.by_id(user_id))

    def all(self) -> list[User]:
        """Return all people with an open account, oldest first."""
        return self._all.all()

    def by_id(self, user_id: int) -> User | None:
        """Return a user by row id, also a machine."""
        return self._by_id.one(id=user_id)

    def by_uuid(self, uuid: str) -> User | None:
        """Return a person by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def by_email(self, email: str) -> User | None:
        """Return a person by e-mail address, ignoring case."""
        return self._by_email.one(email=_normalized(email))


def _normalized(email: str) -> str:
    return email.strip().lower()
