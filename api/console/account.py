"""The page of the caller's own account, and its forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page, redirect
from api.errors.catalog import ApiError
from api.openapi.operations import performs

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.sign_in.providers.configured import IdentityProviders
    from api.sign_in.relying_party import RelyingParty
    from storage import Storage


class AccountPage(Page):
    """``/account``."""

    def __init__(
        self, storage: Storage, pages: Pages, cookies: Cookies, party: RelyingParty, providers: IdentityProviders
    ) -> None:
        self._storage = storage
        self._pages = pages
        self._cookies = cookies
        self._party = party
        self._providers = providers

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the account; without a session the way to sign in."""
        caller = self._cookies.caller(req)
        if caller is None:
            redirect(req, resp, "login?next=/account")
            return
        identities = self._storage.identities.of_user(caller.user.id)
        self._pages.show(
            req,
            resp,
            "account",
            form_token=self._cookies.form_token(req),
            user=caller.user,
            this_session=caller.token_id,
            sessions=self._storage.tokens.sessions(caller.user.id),
            api_keys=self._storage.tokens.api_keys(caller.user.id),
            passkeys=self._storage.passkeys.of_user(caller.user.id),
            identities=[(self._providers.name_of(each.provider), each) for each in identities],
            origins=self._party.origins,
            build_mail=not self._storage.mail_opt_outs.has(caller.user.email),
        )


class AccountForms(Page):
    """The forms that end sessions. Each has the limits and the checks of the operation that it performs."""

    def __init__(self, storage: Storage, cookies: Cookies) -> None:
        self._storage = storage
        self._cookies = cookies

    @performs("logout")
    def on_post_sign_out(self, req: falcon.Request, resp: falcon.Response) -> None:
        """End this session."""
        self._cookies.form(req, resp)
        self._cookies.end_session(req, resp)
        redirect(req, resp, "login")

    @performs("endSession")
    def on_post_end_session(self, req: falcon.Request, resp: falcon.Response, id: str) -> None:
        """End a session, on another device."""
        caller, _ = self._cookies.form(req, resp)
        if not self._storage.tokens.end_session(caller.user.id, id):
            raise ApiError("session_not_found", "this session has ended already")
        redirect(req, resp, "account#sessions")
