"""``HEAD``: the response to ``GET`` without its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest


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
