"""The page of the caller's own account, its forms, and the page on which a person accepts an invite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import parse_json
from api.console.errors import Page
from api.console.operation_form import number_of
from api.console.pages import redirect
from api.errors.catalog import ApiError
from api.openapi.operations import performs
from api.operations.api_tokens import ApiToken
from api.operations.operation import Call
from api.operations.user import delete_current_user

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.console.site import Site
    from api.sign_in.providers.sign_in import IdentityProviders
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
            api_keys=[ApiToken.of(self._storage, each) for each in self._storage.tokens.api_keys(caller.user.id)],
            passkeys=self._storage.passkeys.of_user(caller.user.id),
            identities=[(self._providers.name_of(each.provider), each) for each in identities],
            origins=self._party.origins,
            build_mail=not self._storage.mail_opt_outs.has(caller.user.email),
        )


class SignOutForm(Page):
    """``/account/sign-out``."""

    def __init__(self, cookies: Cookies) -> None:
        self._cookies = cookies

    @performs("logout")
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """End this session."""
        self._cookies.form(req, resp)
        self._cookies.end_session(req, resp)
        redirect(req, resp, "login")


class ClosingForm(Page):
    """``/account/close``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @performs("deleteCurrentUser")
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Delete the account, if the person typed its address."""
        caller, form = self._site.cookies.form(req, resp)
        if form.get("confirmation", "").strip().lower() != caller.user.email.lower():
            raise ApiError("invalid_body", f"nothing was deleted: to confirm it, type {caller.user.email}")
        delete_current_user.perform(Call(self._site.service, caller), {}, dict)
        self._site.cookies.forget_session(resp)
        redirect(req, resp, "login")


def passkey_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``passkeyRegisterFinalize`` of a form, one of whose fields is the credential."""
    credential = parse_json(fields.get("credential", "").encode())
    return {**(credential if isinstance(credential, dict) else {}), "nickname": fields.get("nickname")}


def api_key_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``createApiToken`` of a form."""
    scopes, only = fields.get("scopes", "").split(), fields.get("only", "").strip()
    budget = fields.get("budget_cents", "").strip()
    return {
        "description": fields.get("description"),
        "scopes": scopes or None,
        "only": only or None,
        "budget_cents": number_of(budget) or None,
    }


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
