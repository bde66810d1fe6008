"""The page on which a person accepts an invite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages


class InvitesPage(Page):
    """``/invites``. The invite's token is in the fragment; the page's script moves it into the form."""

    def __init__(self, pages: Pages, cookies: Cookies) -> None:
        self._pages = pages
        self._cookies = cookies

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Ask whether the person wants to join; without a session, to sign in before."""
        caller = self._cookies.caller(req)
        if caller is None:
            self._pages.show(req, resp, "invite_sign_in")
            return
        self._pages.show(req, resp, "invite", user=caller.user, form_token=self._cookies.form_token(req))

    def on_get_accepted(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that the person is a member."""
        self._pages.show(req, resp, "invite_accepted")
