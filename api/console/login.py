"""Pages for people who are not signed in: signing in, signing up and recovering an account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.forms import local_path
from api.console.pages import Page, redirect
from api.fields import check_body
from api.middleware.authentication import bearer_token
from api.openapi.operations import performs
from api.resources.sign_in.passkey_sign_up import PasskeySignupBeginRequest
from api.resources.sign_in.recovery import RecoverBeginRequest
from storage import SignUpMode

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.sign_in.mail import SignInMail
    from api.sign_in.providers.sign_in import IdentityProviders
    from api.sign_in.relying_party import RelyingParty
    from storage import SignUpPolicy


class LoginPage(Page):
    """``/login``."""

    def __init__(
        self,
        pages: Pages,
        cookies: Cookies,
        party: RelyingParty,
        policy: SignUpPolicy,
        engine: EngineInterface,
        providers: IdentityProviders,
        url: str,
    ) -> None:
        self._providers = providers
        self._url = url
        self._pages = pages
        self._cookies = cookies
        self._party = party
        self._policy = policy
        self._engine = engine

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the ways to sign in; somebody who is signed in goes on at once."""
        target = local_path(req.get_param("next") or "")
        if self._cookies.caller(req) is not None:
            redirect(req, resp, target)
            return
        self._pages.show(
            req,
            resp,
            "login",
            next=target,
            origins=self._party.origins,
            providers=[each.about for each in self._providers.all],
            url=self._url,
            form_token=self._cookies.visitors_form_token(req, resp),
            sends_mail=self._engine.sends_mail,
            may_sign_up=self._policy.mode is not SignUpMode.CLOSED,
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


class MailForms(Page):
    """``/login/recover/begin`` and ``/login/sign-up``: forms that ask for a link by e-mail."""

    def __init__(self, pages: Pages, cookies: Cookies, mail: SignInMail, limits: RateLimits) -> None:
        self._pages = pages
        self._cookies = cookies
        self._mail = mail
        self._limits = limits

    @performs("recoverBegin")
    def on_post_recover(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send a magic link."""
        form = self._cookies.visitors_form(req, resp)
        body = check_body({"email": form.get("email", "")}, RecoverBeginRequest)
        self._limits.limit_email(req, resp, body.email)
        self._mail.recovery(body.email)
        redirect(req, resp, "login/sent")

    @performs("passkeySignupBegin")
    def on_post_sign_up(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send a link that proves an e-mail address."""
        form = self._cookies.visitors_form(req, resp)
        fields = {"email": form.get("email", ""), "name": form.get("name", "")}
        body = check_body(fields, PasskeySignupBeginRequest)
        self._limits.limit_email(req, resp, body.email)
        self._mail.sign_up(body.email, body.name)
        redirect(req, resp, "login/sent")

    def on_get_sent(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that the mail is on its way, to everybody who asked."""
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
