"""The access log, and the ids of requests."""

from __future__ import annotations

import logging
import re
import secrets
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from storage import pattern

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest


_ACCEPTED = pattern(r"[A-Za-z0-9._-]{20,200}", re.ASCII)
_CURRENT: ContextVar[str] = ContextVar("request_id", default="-")

_log = logging.getLogger(__name__)
_SLUG = pattern(r"[a-z0-9-]{1,63}", re.ASCII)
_UNKNOWN = "-"


def enter_request(given: str | None) -> str:
    """Set and return the id of the request that this thread now serves.

    It is the caller's own ``X-Request-Id`` if that is valid, else a new one.
    """
    request_id = given if given is not None and _ACCEPTED.fullmatch(given) else secrets.token_hex(16)
    _CURRENT.set(request_id)
    return request_id


class RequestIdFilter(logging.Filter):
    """Adds ``request_id`` to every log record; attach it to a handler, not to a logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, with the request's id."""
        record.request_id = _CURRENT.get()
        return True


class AccessLog:
    """Middleware that logs each request and its status: changes at INFO, reads at DEBUG.

    A line has the route, not the path, and no query, because path and query may hold a token. A stream's line is
    written when the stream begins. The journal adds the request's id, as to every line.
    """

    def process_resource(
        self, req: ApiRequest, resp: falcon.Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Note the organization that the path names."""
        org = params.get("org", "")
        if _SLUG.fullmatch(org):
            req.organization = org

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Write the line."""
        level = logging.DEBUG if req.asked in {"GET", "HEAD", "OPTIONS"} else logging.INFO
        if not _log.isEnabledFor(level):
            return
        fields = {
            "method": req.asked,
            "route": req.uri_template or _UNKNOWN,
            "status": resp.status_code,
            "ms": round((time.perf_counter() - req.began) * 1000, 1),
            "organization": req.organization or _UNKNOWN,
        }
        _log.log(level, "answered", extra=fields)
