"""The cookies of the console: the session, and what proves a form to be ours before there is one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from api.console.forms import FORM_TOKEN, read_form
from api.errors.catalog import ApiError
from storage import TokenKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.middleware.rate_limits import RateLimits
    from storage import Caller, Storage

SESSION = "__Host-session"
VISIT = "__Host-visit"
_SESSION_SECONDS = 30 * 24 * 3600
_OVER = "you are not signed in any more: sign in, then try again"


class Cookies:
    """Reads and sets the cookies. Safe in any thread.

    Scripts cannot read them, and a browser sends them to this host alone. A form carries a token that only pages of
    this service know, because a browser sends cookies with forms of other sites too.
    """

    def __init__(self, storage: Storage, limits: RateLimits) -> None:
        self._limits = limits
        self._storage = storage
        self._key = storage.vault.derive(b"form tokens of the console")

    def caller(self, req: falcon.Request) -> Caller | None:
        """Return the caller whose session the browser has; None without one."""
        token = req.cookies.get(SESSION)
        caller = None if not token else self._storage.tokens.caller(token)
        if caller is None or caller.kind is not TokenKind.SESSION:
            return None
        req.context.caller = caller
        return caller

    def has_session(self, req: falcon.Request) -> bool:
        """Tell whether the browser has a session."""
        return SESSION in req.cookies and self.caller(req) is not None

    def begin_session(self, resp: falcon.Response, token: str) -> None:
        """Keep a session's token in the browser."""
        _set(resp, SESSION, token, _SESSION_SECONDS)

    def keep(self, resp: falcon.Response, name: str, value: str, seconds: int) -> None:
        """Keep a value in the browser for some seconds."""
        _set(resp, name, value, seconds)

    def drop(self, resp: falcon.Response, name: str) -> None:
        """Remove a value from the browser."""
        _set(resp, name, "", -1)

    def end_session(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Revoke the session of the browser and forget it there."""
        self._storage.tokens.revoke(req.cookies.get(SESSION, ""))
        self.forget_session(resp)

    def forget_session(self, resp: falcon.Response) -> None:
        """Remove the session from the browser."""
        self.drop(resp, SESSION)

    def form_token(self, req: falcon.Request) -> str:
        """Return the token for the forms of a page that is shown to somebody who is signed in."""
        return self._sign(SESSION, req.cookies[SESSION])

    def visitors_form_token(self, req: falcon.Request, resp: falcon.Response) -> str:
        """Return the token for the forms of a page that anybody may see; the browser gets a secret for it."""
        secret = req.cookies.get(VISIT)
        if not secret:
            secret = secrets.token_urlsafe(32)
            _set(resp, VISIT, secret)
        return self._sign(VISIT, secret)

    def form(self, req: falcon.Request, resp: falcon.Response) -> tuple[Caller, Mapping[str, str]]:
        """Return who sent a form, and its fields.

        Raises ApiError ``unauthorized``, ``form_refused``, ``rate_limited``, or as `read_form` does.
        """
        self._limits.limit_address(req, resp)
        fields = read_form(req)
        caller = self.caller(req)
        if caller is None:
            raise ApiError.unauthorized(_OVER)
        self._check(SESSION, req, fields)
        self._limits.limit_account(caller, resp)
        return caller, fields

    def visitors_form(self, req: falcon.Request, resp: falcon.Response) -> Mapping[str, str]:
        """Return the fields of a form of a page that anybody may see.

        Raises ApiError ``form_refused``, ``rate_limited``, or as `read_form` does.
        """
        self._limits.limit_address(req, resp)
        fields = read_form(req)
        self._check(VISIT, req, fields)
        return fields

    def _check(self, cookie: str, req: falcon.Request, fields: Mapping[str, str]) -> None:
        token = fields.get(FORM_TOKEN, "")
        secret = req.cookies.get(cookie)
        if not secret or not hmac.compare_digest(self._sign(cookie, secret).encode(), token.encode()):
            raise ApiError("form_refused", "this form was not made for your browser, or you signed in since it was")

    def _sign(self, cookie: str, secret: str) -> str:
        return hmac.new(self._key, f"{cookie} {secret}".encode(), hashlib.sha256).hexdigest()


def _set(resp: falcon.Response, name: str, value: str, max_age: int | None = None) -> None:
    resp.set_cookie(name, value, max_age=max_age, path="/", secure=True, http_only=True, same_site="Lax")
