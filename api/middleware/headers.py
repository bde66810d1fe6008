"""Headers of every response (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest


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
