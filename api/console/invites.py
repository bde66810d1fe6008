"""The page on which a person accepts an invite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page, redirect
from api.errors.responses import ApiError
from api.fields import check_body
from api.openapi.operations import performs
from api.resources.accounts.invites import AcceptInviteRequest
from api.resources.accounts.organizations import OrganizationRecord
from storage import InviteUnacceptable

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from storage import Storage

__all__ = ["InvitesPage"]


class InvitesPage(Page):
    """``/invites``. The invite's token is in the fragment; the page's script moves it into the form."""

    def __init__(self, storage: Storage, pages: Pages, cookies: Cookies) -> None:
        self._storage = storage
        self._pages = pages
        self._cookies = cookies

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Ask whether the person wants to join; without a session, to sign in before."""
        caller = self._cookies.caller(req)
        if caller is None:
            self._pages.show(req, resp, "invite_sign_in")
            return
        self._pages.show(req, resp, "invite", user=caller.user, form_token=self._cookies.form_token(req))

    @performs("acceptInvite")
    def on_post_accept(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Accept the invite."""
        caller, form = self._cookies.form(req, resp)
        body = check_body({"token": form.get("token", "")}, AcceptInviteRequest)
        try:
            organization = self._storage.invites.accept(body.token, caller.user)
        except InviteUnacceptable as error:
            raise ApiError("invite_unacceptable", str(error)) from None
        resp.context.record = OrganizationRecord.of(organization)
        redirect(req, resp, "invites/accepted")

    def on_get_accepted(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that the person is a member."""
        self._pages.show(req, resp, "invite_accepted")
