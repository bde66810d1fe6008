"""The page on which a person hands a session to a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from api.console.errors import Page
from api.console.operation_form import OperationForm, shows
from api.console.pages import redirect, whole_number
from api.operations import cli_login

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.request import ApiRequest

_PORTS = range(1024, 65536)


class CliLoginPage(Page):
    """``/cli-login`` and its forms.

    A command line opens it with ``nonce_hash``, or ``nonce`` in version 0. Without one the page gives a code to type.
    With ``port`` it listens at this port of the person's own computer, and the browser comes back to it. What it gets
    there is no secret: it claims the session with its nonce.
    """

    def __init__(self, pages: Pages, cookies: Cookies) -> None:
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

    def on_get_done(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that the command line is signed in."""
        self._pages.show(req, resp, "cli_done")


def add_cli_login_pages(routes: Routes, site: Site) -> None:
    """Route the page and its forms."""
    page = CliLoginPage(site.pages, site.cookies)
    routes.add_page("/cli-login", page)
    routes.add_page("/cli-login/done", page, "done")
    for path, performed in (("transfer", cli_login.transfer), ("transfer-v2", cli_login.transfer_v2)):
        routes.add_page(f"/cli-login/{path}", OperationForm(site, performed, _go_back, in_path=("port",)))
    # The code is shown in this response alone.
    routes.add_page("/cli-login/code", OperationForm(site, cli_login.issue_code, shows(site, "cli_code")))


def _go_back(req: ApiRequest, resp: falcon.Response, names: Mapping[str, str], _record: object) -> None:
    """Redirect to a command line that listens on the person's computer, else to a page."""
    loopback = _loopback(names["port"])
    if loopback is None:
        redirect(req, resp, "cli-login/done")
    else:
        resp.status = 303
        resp.location = f"{loopback}/callback"


def _loopback(port: str | None) -> str | None:
    """Return the origin of a port of the browser's own computer; None for ports of its system."""
    number = whole_number(port)
    return f"http://localhost:{number}" if number is not None and number in _PORTS else None
