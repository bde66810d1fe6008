"""The browser or program that a person signs in from, as operations see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.middleware.authentication import BearerTokens
from storage import SessionOrigin, pattern

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from storage import Storage, User

_LONGEST = 1000
"""Characters of the header that are looked at; those of browsers are a quarter of this."""

_BROWSERS = (
    ("Edge", pattern(r"\bEdg(?:e|A|iOS)?/")),
    ("Opera", pattern(r"\bOPR/|\bOpera\b")),
    ("Samsung Internet", pattern(r"\bSamsungBrowser/")),
    ("Firefox", pattern(r"\b(?:Firefox|FxiOS)/")),
    ("Chrome", pattern(r"\b(?:Chrome|Chromium|CriOS|HeadlessChrome)/")),
    ("Safari", pattern(r"\bSafari/")),
)
"""Browsers, those first that also name another one."""

_SYSTEMS = (
    ("iOS", pattern(r"\b(?:iPhone|iPad|iPod)\b")),
    ("Android", pattern(r"\bAndroid\b")),
    ("Windows", pattern(r"\bWindows\b")),
    ("macOS", pattern(r"\b(?:Macintosh|Mac OS X)\b")),
    ("ChromeOS", pattern(r"\bCrOS\b")),
    ("Linux", pattern(r"\b(?:Linux|X11)\b")),
)
"""Operating systems, those first that also name another one."""

_PROGRAMS = (
    ("ci-daemon", "ci-daemon/"),
    ("curl", "curl/"),
    ("Wget", "Wget/"),
    ("Python", "python-httpx/"),
    ("Python", "python-requests/"),
    ("Python", "Python-urllib/"),
    ("Go", "Go-http-client/"),
    ("Node.js", "node"),
)
"""Programs by the beginning of their header."""

_UNKNOWN = "unknown program"


class Visitor:
    """The sender of a request; limits that it is near to go into the response."""

    def __init__(self, req: falcon.Request, resp: falcon.Response, storage: Storage, limits: RateLimits) -> None:
        self._req = req
        self._resp = resp
        self._storage = storage
        self._limits = limits

    @property
    def origin(self) -> SessionOrigin:
        """The address and the program, as the person's list of sessions shows them."""
        return SessionOrigin(self._limits.addresses.address(self._req), agent_name(self._req.user_agent))

    def limit_email(self, email: str) -> None:
        """Count the request for an e-mail address. Raises ApiError ``rate_limited``."""
        self._limits.limit_email(self._req, self._resp, email)

    def limit_user(self, user: User) -> None:
        """Count the request for the account that it signs in. Raises ApiError ``rate_limited``."""
        self._limits.limit_user(user, self._resp)

    def begin_session(self, user: User, way: str) -> str:
        """Start a session of the user, who signed in in this way, such as "passkey"; return its token."""
        _, token = self._storage.tokens.create_session(user.id, way, self.origin)
        self.is_now(token)
        self._resp.cache_control = ["no-store"]
        return token

    def revoke_token(self) -> None:
        """Revoke the token of the request. Raises ApiError ``unauthorized`` or ``rate_limited``."""
        BearerTokens(self._storage, self._limits).revoke(self._req)

    def is_now(self, token: str) -> None:
        """Name the caller by the token of a new session, for the audit and the server's turns."""
        self._req.context.caller = self._storage.tokens.caller(token)


def agent_name(header: str | None) -> str:
    """Return a program's name, such as "Firefox on Linux" or "curl", from its ``User-Agent``.

    All names are in the lists above: nothing of the header itself is stored.
    """
    text = (header or "")[:_LONGEST]
    for name, beginning in _PROGRAMS:
        if text.startswith(beginning):
            return name
    browser = next((name for name, found in _BROWSERS if found.search(text)), None)
    if browser is None:
        return _UNKNOWN
    system = next((name for name, found in _SYSTEMS if found.search(text)), None)
    return browser if system is None else f"{browser} on {system}"
