"""Closing of accounts (wire-decisions.md, "Accounts").

Nothing that the ledger or a build refers to is deleted. The user's row stays, without name and address. Organizations
whose only person was the user stay, without members, and their slugs stay taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.database.statements import Query, Write, first, slot
from storage.errors import SoleOwner
from storage.models.accounts import (
    CliLoginRow,
    IdentityRow,
    MembershipRow,
    OrganizationRow,
    SignInLinkRow,
    TokenRow,
    UserRow,
)
from storage.models.leases import KeptDiskRow, PreviewRow
from storage.models.notifications import MailOptOutRow, MailRow, NotificationRow
from storage.models.pipelines import FavouriteRow, PipelineRow, PipelineTriggerRow, ScheduleRow
from storage.records.accounts import Role
from storage.records.pipelines import Visibility

if TYPE_CHECKING:
    from storage.accounts.machine_accounts import MachineAccounts
    from storage.accounts.passkeys import Passkeys
    from storage.billing.holds import Holds
    from storage.builds.builds import Builds
    from storage.database.connection import Database


class Accounts:
    """Closes accounts. Safe in any thread."""

    def __init__(
        self, database: Database, builds: Builds, holds: Holds, passkeys: Passkeys, machines: MachineAccounts
    ) -> None:
        self._database = database
        self._builds = builds
        self._holds = holds
        self._passkeys = passkeys
        self._machines = machines
        mine = MembershipRow.user == slot("user_id")
        other = MembershipRow.alias()
        another = UserRow.alias()
        others = (
            other.select(peewee.SQL("1"))
            .join(another, on=another.id == other.user)
            .where(
                other.organization == MembershipRow.organization,
                other.user != slot("user_id"),
                another.machine == 0,
            )
        )
        self._depending = Query(
            database,
            lambda: (
                MembershipRow.select(OrganizationRow.slug)
                .join(OrganizationRow)
                .where(
                    mine,
                    MembershipRow.role == Role.OWNER,
                    peewee.fn.EXISTS(others),
                    ~peewee.fn.EXISTS(others.where(other.role == Role.OWNER)),
                )
                .order_by(MembershipRow.organization)
            ),
            lambda row: str(row[0]),
        )
        self._alone = Query(
            database,
            lambda: MembershipRow.select(MembershipRow.organization).where(mine, ~peewee.fn.EXISTS(others)),
            first,
        )
        self._hide = Write(
            database,
            lambda: PipelineRow.update({PipelineRow.visibility: Visibility.PRIVATE}).where(
                PipelineRow.organization == slot("organization_id"), PipelineRow.deleted_at.is_null()
            ),
        )
        pipelines = PipelineRow.select(PipelineRow.id).where(
            PipelineRow.organization == slot("organization_id"), PipelineRow.deleted_at.is_null()
        )
        self._forget_triggers = Write(
            database, lambda: PipelineTriggerRow.delete().where(PipelineTriggerRow.pipeline << pipelines)
        )
        self._forget_schedules = Write(database, lambda: ScheduleRow.delete().where(ScheduleRow.pipeline << pipelines))
        self._forget_notifications = Write(
            database, lambda: NotificationRow.delete().where(NotificationRow.pipeline << pipelines)
        )
        self._forget_disks = Write(
            database, lambda: KeptDiskRow.delete().where(KeptDiskRow.organization == slot("organization_id"))
        )
        self._end_previews = Write(
            database,
            lambda: PreviewRow.update({PreviewRow.ended_at: slot("now"), PreviewRow.why_ended: slot("why")}).where(
                PreviewRow.organization == slot("organization_id"), PreviewRow.ended_at.is_null()
            ),
        )
        self._close_organization = Write(
            database,
            lambda: OrganizationRow.update({OrganizationRow.closed_at: slot("now")}).where(
                OrganizationRow.id == slot("organization_id")
            ),
        )
        self._leave = Write(database, lambda: MembershipRow.delete().where(mine))
        self._forget_tokens = Write(database, lambda: TokenRow.delete().where(TokenRow.user == slot("user_id")))
        self._forget_cli_logins = Write(
            database, lambda: CliLoginRow.delete().where(CliLoginRow.user == slot("user_id"))
        )
        self._forget_identities = Write(
            database, lambda: IdentityRow.delete().where(IdentityRow.user == slot("user_id"))
        )
        self._forget_links = Write(
            database, lambda: SignInLinkRow.delete().where(SignInLinkRow.user == slot("user_id"))
        )
        self._forget_favourites = Write(
            database, lambda: FavouriteRow.delete().where(FavouriteRow.user == slot("user_id"))
        )
        address = UserRow.select(UserRow.email).where(UserRow.id == slot("user_id"))
        self._forget_mails = Write(database, lambda: MailRow.delete().where(MailRow.recipient == address))
        self._forget_opt_out = Write(database, lambda: MailOptOutRow.delete().where(MailOptOutRow.email == address))
        self._close_user = Write(
            database,
            lambda: UserRow.update(
                {UserRow.email: UserRow.uuid, UserRow.name: "", UserRow.closed_at: slot("now")}
            ).where(UserRow.id == slot("user_id")),
        )

    def close(self, user_id: int) -> list[int]:
        """Close a user's account, and the organizations whose only person is the user.

        Requests the cancel of those organizations' unfinished builds and returns their ids, for the caller to notify
        the engine. Raises SoleOwner, and changes nothing, if the user is the only owner of an organization that has
        other people.
        """
        with self._database.write():
            depending = self._depending.all(user_id=user_id)
            if depending:
                raise SoleOwner(depending)
            now = self._database.now()
            closed = self._alone.all(user_id=user_id)
            for organization_id in closed:
                self._close_organization.run(organization_id=organization_id, now=now)
                self._hide.run(organization_id=organization_id)
                self._forget_schedules.run(organization_id=organization_id)
                self._forget_triggers.run(organization_id=organization_id)
                self._forget_notifications.run(organization_id=organization_id)
                self._forget_disks.run(organization_id=organization_id)
                self._end_previews.run(organization_id=organization_id, now=now, why="its organization was closed")
                self._holds.forget(organization_id=organization_id)
                self._machines.remove_all(organization_id)
            canceled = [build.id for build in self._builds.unfinished() if build.organization_id in closed]
            for build_id in canceled:
                self._builds.request_cancel(build_id)
            self._leave.run(user_id=user_id)
            self._forget_tokens.run(user_id=user_id)
            self._forget_cli_logins.run(user_id=user_id)
            self._forget_links.run(user_id=user_id)
            self._passkeys.forget(user_id)
            self._forget_favourites.run(user_id=user_id)
            self._forget_mails.run(user_id=user_id)
            self._forget_opt_out.run(user_id=user_id)
            self._forget_identities.run(user_id=user_id)
            self._close_user.run(user_id=user_id, now=now)
            return canceled
