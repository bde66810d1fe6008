"""Pages for people who are not signed in: signing in, signing up and recovering an account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.cookies import local_path
from api.console.errors import Page
from api.console.pages import redirect
from api.middleware.authentication import bearer_token
from api.openapi.operations import performs
from storage import SignUpMode

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.console.site import Site
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.sign_in.relying_party import RelyingParty


class LoginPage(Page):
    """``/login``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the ways to sign in; somebody who is signed in goes on at once."""
        target = local_path(req.get_param("next") or "")
        site, ways_in = self._site, self._site.later
        if site.cookies.caller(req) is not None:
            redirect(req, resp, target)
            return
        site.pages.show(
            req,
            resp,
            "login",
            next=target,
            origins=site.party.origins,
            providers=[each.about for each in ways_in.identities.all],
            url=site.url,
            form_token=site.cookies.visitors_form_token(req, resp),
            sends_mail=site.engine.sends_mail,
            may_sign_up=ways_in.sign_up_policy.mode is not SignUpMode.CLOSED,
        )


class LinkPage(Page):
    """``/login/verify``, ``/login/recover`` or ``/login/owner``, where a link leads.

    Its token is in the fragment, which browsers keep to themselves: the page's script reads it.
    """

    def __init__(self, pages: Pages, party: RelyingParty, kind: str) -> None:
        self._pages = pages
        self._party = party
        self._kind = kind

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the button that makes a passkey."""
        self._pages.show(req, resp, "link", kind=self._kind, next="", origins=self._party.origins)


class SentPage(Page):
    """``/login/sent``, for everybody who asked for a link by e-mail."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that the mail is on its way."""
        self._pages.show(req, resp, "sent")


class SessionCookieResource:
    """``/login/session``, where the script of a page exchanges a session's token for the cookie."""

    def __init__(self, cookies: Cookies, access: Access, limits: RateLimits) -> None:
        self._cookies = cookies
        self._access = access
        self._limits = limits

    @performs("getCurrentUser")
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Keep the bearer token, which must be a session's, in a cookie.

        No form of another site can sign a browser in here, because forms send no ``Authorization``.
        """
        self._limits.limit_address(req, resp)
        self._access.session(req)
        self._cookies.begin_session(resp, bearer_token(req) or "")
        resp.cache_control = ["no-store"]
        resp.status = 204
