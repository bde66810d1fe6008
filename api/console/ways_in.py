"""Forms of the account that change how its person signs in, and the end of the account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, parse_json
from api.console.pages import Page, redirect
from api.errors.catalog import ApiError
from api.fields import check_body
from api.openapi.operations import performs
from api.operations.operation import Call
from api.operations.user import delete_current_user
from api.resources.accounts.identities import remove_identity
from api.resources.accounts.passkeys import PasskeyRecord, PasskeyRegisterFinalizeRequest

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.site import Site
    from api.engine import EngineInterface
    from api.sign_in.account_passkeys import AccountPasskeys
    from storage import Storage


class PasskeyForms(Page):
    """``/account/passkeys`` and ``/account/identities/{id}/delete``."""

    def __init__(self, storage: Storage, engine: EngineInterface, cookies: Cookies, passkeys: AccountPasskeys) -> None:
        self._storage = storage
        self._engine = engine
        self._cookies = cookies
        self._passkeys = passkeys

    @performs("passkeyRegisterOptions")
    def on_post_options(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return a challenge as JSON, for the page's script, which then sends the form."""
        caller, _ = self._cookies.form(req, resp)
        resp.cache_control = ["no-store"]
        answer(resp, self._passkeys.begin(caller))

    @performs("passkeyRegisterFinalize")
    def on_post_add(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Add the passkey that answered the challenge."""
        caller, form = self._cookies.form(req, resp)
        credential = parse_json(form.get("credential", "").encode())
        fields = credential if isinstance(credential, dict) else {}
        body = check_body({**fields, "nickname": form.get("nickname")}, PasskeyRegisterFinalizeRequest)
        made = self._passkeys.finish(caller, body.challenge_id, body.attestation, body.nickname)
        resp.context.record = PasskeyRecord.of(made)
        redirect(req, resp, "account#passkeys")

    @performs("deletePasskey")
    def on_post_delete(self, req: falcon.Request, resp: falcon.Response, uuid: str) -> None:
        """Delete a passkey."""
        caller, _ = self._cookies.form(req, resp)
        self._passkeys.remove(caller, uuid)
        redirect(req, resp, "account#passkeys")

    @performs("deleteIdentity")
    def on_post_delete_identity(self, req: falcon.Request, resp: falcon.Response, id: str) -> None:
        """Delete an identity at a provider."""
        caller, _ = self._cookies.form(req, resp)
        remove_identity(self._storage, self._engine, caller, id)
        redirect(req, resp, "account#identities")


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
