"""One log line per request."""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest

_log = logging.getLogger(__name__)

_SLUG = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_UNKNOWN = "-"


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
