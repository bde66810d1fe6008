"""CORS: web pages of other origins that call the API from a browser (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest

# Considered: falcon's `CORSMiddleware` allows every header that a page asks for, compares origins case-sensitively and
# sets no `Vary: Origin`, without which a cache gives one page's response to another.

_METHODS = "GET, POST, PUT, PATCH, DELETE"
_HEADERS = "authorization, content-type, last-event-id"
_EXPOSED = (
    "X-Request-Id, X-Log-Complete, Content-Range, Retry-After, WWW-Authenticate, RateLimit-Limit, RateLimit-Remaining,"
    " RateLimit-Reset"
)
_PREFLIGHT_SECONDS = "600"


class Cors:
    """Middleware that answers preflights and sets CORS headers for the configured origins only."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)

    def process_request(self, req: ApiRequest, resp: falcon.Response) -> None:
        """Answer a preflight here, because it carries no token and has no resource."""
        if req.method == "OPTIONS" and req.get_header("Access-Control-Request-Method") and self._allows(req):
            resp.status = 204
            resp.set_headers(
                {
                    "Access-Control-Allow-Methods": _METHODS,
                    "Access-Control-Allow-Headers": _HEADERS,
                    "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
                }
            )
            resp.complete = True

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Let the calling page read the response."""
        if not self._origins:
            return
        resp.append_header("Vary", "Origin")
        if self._allows(req):
            resp.set_header("Access-Control-Allow-Origin", req.get_header("Origin") or "")
            resp.set_header("Access-Control-Expose-Headers", _EXPOSED)

    def _allows(self, req: ApiRequest) -> bool:
        origin = req.get_header("Origin")
        return origin is not None and origin.lower() in self._origins
