"""The page on which a person hands a session to a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.console.pages import Page, redirect, whole_number
from api.fields import check_body
from api.openapi.operations import performs
from api.resources.sign_in.cli_login import CliTransferRequest, CliTransferV2Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from storage import Storage

_PORTS = range(1024, 65536)


class CliLoginPage(Page):
    """``/cli-login`` and its forms.

    A command line opens it with ``nonce_hash``, or ``nonce`` in version 0. Without one the page gives a code to type.
    With ``port`` it listens at this port of the person's own computer, and the browser comes back to it. What it gets
    there is no secret: it claims the session with its nonce.
    """

    def __init__(self, storage: Storage, pages: Pages, cookies: Cookies) -> None:
        self._storage = storage
        self._pages = pages
        self._cookies = cookies

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Ask whether a command line may sign in; nothing happens before the person says so."""
        caller = self._cookies.caller(req)
        if caller is None:
            redirect(req, resp, f"login?{urlencode({'next': f'/cli-login?{req.query_string}'})}")
            return
        loopback = _loopback(req.get_param("port"))
        self._pages.show(
            req,
            resp,
            "cli_login",
            port=req.get_param("port") if loopback else None,
            form_token=self._cookies.form_token(req),
            user=caller.user,
            nonce_hash=req.get_param("nonce_hash"),
            nonce=req.get_param("nonce"),
        )
        if loopback is not None:
            self._pages.allow_redirect(resp, loopback)

    @performs("cliTransferV2")
    def on_post_transfer_v2(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let the command line claim a session by the hash of its nonce."""
        caller, form = self._cookies.form(req, resp)
        body = check_body({"nonce_hash": form.get("nonce_hash", "")}, CliTransferV2Request)
        self._storage.cli_logins.offer_hashed(caller.user.id, bytes.fromhex(body.nonce_hash))
        _go_back(req, resp, form)

    @performs("cliTransfer")
    def on_post_transfer(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Let the command line claim a session by its nonce."""
        caller, form = self._cookies.form(req, resp)
        body = check_body({"nonce": form.get("nonce", "")}, CliTransferRequest)
        self._storage.cli_logins.offer(caller.user.id, body.nonce)
        _go_back(req, resp, form)

    @performs("cliCode")
    def on_post_code(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show a code to type, in this response alone."""
        caller, _ = self._cookies.form(req, resp)
        self._pages.show(req, resp, "cli_code", code=self._storage.cli_logins.issue_code(caller.user.id))

    def on_get_done(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that the command line is signed in."""
        self._pages.show(req, resp, "cli_done")


def _go_back(req: falcon.Request, resp: falcon.Response, form: Mapping[str, str]) -> None:
    """Redirect to a command line that listens on the person's computer, else to a page."""
    loopback = _loopback(form.get("port"))
    if loopback is None:
        redirect(req, resp, "cli-login/done")
    else:
        resp.status = 303
        resp.location = f"{loopback}/callback"


def _loopback(port: str | None) -> str | None:
    """Return the origin of a port of the browser's own computer; None for ports of its system."""
    number = whole_number(port)
    return f"http://localhost:{number}" if number is not None and number in _PORTS else None
