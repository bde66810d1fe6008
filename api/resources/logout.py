"""Logout, which revokes the caller's token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import BearerTokens
    from api.middleware.rate_limits import RateLimits


class LogoutResource:
    """``/api/v0/auth/logout``."""

    def __init__(self, tokens: BearerTokens, limits: RateLimits) -> None:
        self._tokens = tokens
        self._limits = limits

    @operation("logout", Answer(204, "The token is revoked."), tag="sessions")
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Revoke the token of this request, a session token or an API key.

        A repeated request with the same token gets the same response.
        """
        self._limits.limit_address(req, resp)
        self._tokens.revoke(req)
        resp.status = 204
