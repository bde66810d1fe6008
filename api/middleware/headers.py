"""Headers of every answer, those of CORS, and answers to HEAD."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest

_METHODS = "GET, POST, PUT, PATCH, DELETE"
_HEADERS = "authorization, content-type, last-event-id"
_EXPOSED = (
    "X-Request-Id, X-Log-Complete, Content-Range, Retry-After, WWW-Authenticate, RateLimit-Limit, RateLimit-Remaining,"
    " RateLimit-Reset"
)
_PREFLIGHT_SECONDS = "600"


def standard_headers(request_id: str) -> list[tuple[str, str]]:
    """Return the headers of the response to one request."""
    return [
        ("X-Request-Id", request_id),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    ]


class Headers:
    """Middleware that sets the headers of every response."""

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Set the headers."""
        resp.set_headers(standard_headers(req.request_id))


# Considered: falcon's `CORSMiddleware` allows every header that a page asks for, compares origins case-sensitively and
# sets no `Vary: Origin`, without which a cache gives one page's response to another.


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


class Head:
    """Middleware that lets every resource that answers GET answer HEAD."""

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Drop the body and close its stream; add HEAD to ``Allow`` if GET is in it."""
        allowed = resp.get_header("Allow")
        if allowed is not None and "GET" in allowed:
            resp.set_header("Allow", f"{allowed}, HEAD")
        if req.head:
            req.method = "HEAD"
            close = getattr(resp.stream, "close", None)
            if close is not None:
                close()
