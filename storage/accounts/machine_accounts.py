"""Machine accounts: users without a person, each of one organization.

See wire-decisions.md, "Machine accounts".

A machine is a row of ``users`` whose personal organization is the one that it belongs to, and whose address is
``acme/deploy-bot``, which is no e-mail address. So nobody signs in as it, and no mail goes to it. What it did names it
also when it is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import peewee

from storage.accounts.users import USER_COLUMNS
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.errors import MachineAccountExists, TooManyMachineAccounts
from storage.models.accounts import MembershipRow, OrganizationRow, TokenRow, UserRow
from storage.models.pipelines import FavouriteRow
from storage.records.accounts import MachineAccount

if TYPE_CHECKING:
    from storage.accounts.organizations import Organizations
    from storage.database.connection import Database
    from storage.records.accounts import Organization, Role, User

_MOST = 100
_MACHINE = Columns.of(MachineAccount, UserRow, address=UserRow.email, role=MembershipRow.role)


class MachineAccounts:
    """The accounts of organizations' own programs. Safe in any thread."""

    def __init__(self, database: Database, organizations: Organizations) -> None:
        self._database = database
        self._organizations = organizations
        standing = (UserRow.machine == 1) & UserRow.closed_at.is_null()
        of_organization = UserRow.personal_organization == slot("organization_id")
        self._all = Query(
            database,
            lambda: (
                UserRow.select(*_MACHINE.selected)
                .join(MembershipRow, on=MembershipRow.user == UserRow.id)
                .where(of_organization, standing)
            ),
            _MACHINE,
        )
        users = UserRow.select(*USER_COLUMNS.selected).join(OrganizationRow)
        self._named = Query(
            database,
            lambda: users.where(UserRow.email == slot("address"), of_organization, standing),
            USER_COLUMNS,
        )
        self._count = Query(
            database, lambda: UserRow.select(peewee.fn.COUNT(UserRow.id)).where(of_organization, standing), first
        )
        self._ids = Query(database, lambda: UserRow.select(UserRow.id).where(of_organization, standing), first)
        self._insert = Write(database, lambda: insert_into(UserRow, "closed_at"))
        self._end_keys = Write(
            database,
            lambda: TokenRow.update({TokenRow.revoked_at: slot("now")}).where(
                TokenRow.user == slot("id"), TokenRow.revoked_at.is_null()
            ),
        )
        self._leave = Write(database, lambda: MembershipRow.delete().where(MembershipRow.user == slot("id")))
        self._forget_favourites = Write(database, lambda: FavouriteRow.delete().where(FavouriteRow.user == slot("id")))
        self._close = Write(
            database,
            lambda: UserRow.update(
                {UserRow.name: UserRow.email, UserRow.email: UserRow.uuid, UserRow.closed_at: slot("now")}
            ).where(UserRow.id == slot("id")),
        )

    def create(self, organization: Organization, name: str, role: Role) -> MachineAccount:
        """Add a machine account. Raises MachineAccountExists, and TooManyMachineAccounts above a hundred."""
        address = _address(organization, name)
        with self._database.write():
            if self.named(organization, name) is not None:
                raise MachineAccountExists(f"there is a machine account {address} already")
            if written(self._count.one(organization_id=organization.id)) >= _MOST:
                raise TooManyMachineAccounts(f"{organization.slug} has {_MOST} machine accounts, and may have no more")
            user_id = self._insert.insert(
                uuid=str(uuid4()),
                email=address,
                name="",
                personal_organization_id=organization.id,
                created_at=self._database.now(),
                machine=True,
            )
            self._organizations.add_member(organization.id, user_id, role)
            return next(each for each in self.all(organization.id) if each.address == address)

    def all(self, organization_id: int) -> list[MachineAccount]:
        """Return an organization's machine accounts by name."""
        return sorted(self._all.all(organization_id=organization_id), key=lambda machine: machine.address)

    def named(self, organization: Organization, name: str) -> User | None:
        """Return the user that a machine account is; None if the organization has none of this name."""
        return self._named.one(address=_address(organization, name), organization_id=organization.id)

    def remove(self, user_id: int) -> None:
        """Close a machine account: its keys end at once, what it did stays under its name."""
        with self._database.write():
            now = self._database.now()
            self._end_keys.run(id=user_id, now=now)
            self._leave.run(id=user_id)
            self._forget_favourites.run(id=user_id)
            self._close.run(id=user_id, now=now)

    def remove_all(self, organization_id: int) -> None:
        """Close every machine account of an organization, in the caller's transaction."""
        for user_id in self._ids.all(organization_id=organization_id):
            self.remove(user_id)


def _address(organization: Organization, name: str) -> str:
    return f"{organization.slug}/{name}"
