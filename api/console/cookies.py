"""The cookies of the console, the session among them, and forms, which prove by them to be ours."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import falcon

from api.errors.catalog import ApiError
from storage import TokenKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.middleware.rate_limits import RateLimits
    from storage import Caller, OwnerSession, Storage

SESSION = "__Host-session"
VISIT = "__Host-visit"
OWNER = "__Host-owner"
_SESSION_SECONDS = 30 * 24 * 3600
_OWNER_SECONDS = 3600
_OWNER_ALONE = "this is for the owner of the host, who signs in by the link that `ci-daemon console link` prints there"
_OVER = "you are not signed in any more: sign in, then try again"

FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_MOST_BYTES = 64 * 1024
_MOST_FIELDS = 50


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

    def owner(self, req: falcon.Request) -> OwnerSession | None:
        """Return the session of the host's owner that the browser has; None without one."""
        token = req.cookies.get(OWNER)
        return None if not token else self._storage.owner_sessions.find(token)

    def require_owner(self, req: falcon.Request) -> OwnerSession:
        """Return the session of the host's owner. Raises ApiError ``owner_session_required``."""
        session = self.owner(req)
        if session is None:
            raise ApiError("owner_session_required", _OWNER_ALONE)
        return session

    def begin_owner_session(self, resp: falcon.Response, token: str) -> None:
        """Keep the token of the owner's session in the browser."""
        _set(resp, OWNER, token, _OWNER_SECONDS)

    def end_owner_session(self, req: falcon.Request, resp: falcon.Response) -> None:
        """End the owner's session of the browser and forget it there."""
        self._storage.owner_sessions.end(req.cookies.get(OWNER, ""))
        self.drop(resp, OWNER)

    def owner_form_token(self, req: falcon.Request) -> str:
        """Return the token for the forms of a page that is shown to the owner of the host."""
        return self._sign(OWNER, req.cookies[OWNER])

    def owner_form(self, req: falcon.Request, resp: falcon.Response) -> tuple[OwnerSession, Mapping[str, str]]:
        """Return the session of the owner who sent a form, and its fields.

        Raises ApiError ``owner_session_required``, ``form_refused``, ``rate_limited``, or as `read_form` does.
        """
        self._limits.limit_address(req, resp)
        session, fields = self.require_owner(req), read_form(req)
        self._check(OWNER, req, fields)
        return session, fields

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

    def form(
        self, req: falcon.Request, resp: falcon.Response, *, limited: bool = True
    ) -> tuple[Caller, Mapping[str, str]]:
        """Return who sent a form, and its fields. A ``limited`` one counts for its address and its account.

        Raises ApiError ``unauthorized``, ``form_refused``, ``rate_limited``, or as `read_form` does.
        """
        if limited:
            self._limits.limit_address(req, resp)
        fields = read_form(req)
        caller = self.caller(req)
        if caller is None:
            raise ApiError.unauthorized(_OVER)
        self._check(SESSION, req, fields)
        if limited:
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


def read_form(req: falcon.Request) -> Mapping[str, str]:
    """Return a form's fields.

    Raises ApiError ``unsupported_media_type``, ``body_too_large`` or ``malformed_request``.
    """
    media_type, _ = falcon.parse_header(req.content_type or "")
    if media_type.lower() != falcon.MEDIA_URLENCODED:
        raise ApiError("unsupported_media_type", "Content-Type: expected application/x-www-form-urlencoded")
    body = req.bounded_stream.read(_MOST_BYTES + 1)
    if len(body) > _MOST_BYTES:
        raise ApiError("body_too_large", f"the form has more than {_MOST_BYTES} bytes")
    try:
        return dict(
            parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
        )
    except ValueError as error:
        raise ApiError("malformed_request", f"the form cannot be read: {error}") from None


def local_path(text: str) -> str:
    """Return a page's path without its first slash; the path of home if it is no page of this service.

    What is left may hold anything that a path and a query may, because links put the path to the root before it.
    """
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or "\\" in text or " " in text:
        return ""
    return text.lstrip("/")
