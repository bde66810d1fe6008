"""Organizations of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.lookup import find_user
from ci_daemon.command.support.session import Failure
from ci_daemon.remote.account_views import OrganizationView
from storage import CancelSuperseded, ForkApproval, NameUnusable, immutable

if TYPE_CHECKING:
    from ci_daemon.command.support.session import Session
    from storage import Organization, Storage

__all__ = ["BoxOrganization", "BoxOrganizations", "organization_of"]


@immutable
class BoxOrganization(OrganizationView):
    """An organization with its credit and the settings that the owner of the host makes."""

    id: str
    balance_cents: int
    weight: int
    fail_fast: bool
    cancel_superseded: CancelSuperseded | None
    fork_approval: ForkApproval | None
    fork_secrets: bool | None
    provider: str | None
    strict_shell: bool | None


class BoxOrganizations:
    """Organizations in a storage."""

    def __init__(self, session: Session, storage: Storage) -> None:
        self._session = session
        self._storage = storage

    def all(self) -> list[BoxOrganization]:
        """Return all organizations, oldest first."""
        return [organization_of(self._storage, each) for each in self._storage.organizations.all()]

    def create(self, name: str, url: str, owner: str | None) -> BoxOrganization:
        """Create an organization of a user's, which the audit names."""
        if owner is None:
            raise click.UsageError("on the box, say whose organization it is: give --owner EMAIL")
        user = find_user(self._storage, owner)
        try:
            made = self._storage.organizations.create(name, url, user.id)
        except NameUnusable as error:
            raise Failure(str(error)) from None
        self._session.organization = made.slug
        return organization_of(self._storage, made)


def organization_of(storage: Storage, each: Organization) -> BoxOrganization:
    """Return the view of a stored organization."""
    return BoxOrganization(
        slug=each.slug,
        name=each.name,
        url=each.url,
        created_at=each.created_at,
        id=each.uuid,
        balance_cents=storage.ledger.balance(each.id),
        weight=each.weight,
        fail_fast=each.fail_fast,
        cancel_superseded=each.cancel_superseded,
        fork_approval=each.fork_approval,
        fork_secrets=each.fork_secrets,
        provider=each.provider,
        strict_shell=each.strict_shell,
    )
