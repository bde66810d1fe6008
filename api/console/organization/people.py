"""The members of an organization, its invites and its secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page
from api.operations.invites import INVITABLE
from storage import Role, SecretScope

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site


class OrganizationSettingsPage(Page):
    """``/{org}/settings``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show members, invites and secrets to a member; only admins change them."""
        member = self._site.access.member(req, org)
        storage, organization = self._site.storage, member.organization
        self._site.pages.show(
            req,
            resp,
            "organization/settings",
            organization=organization,
            admin=member.role.covers(Role.ADMIN),
            me=member.caller.user,
            members=storage.members.all(organization.id),
            invites=storage.invites.pending(organization.id),
            secrets=storage.secrets.names(SecretScope(organization.id)),
            roles=list(Role),
            invitable=INVITABLE,
            form_token=self._site.form_token(req),
        )
