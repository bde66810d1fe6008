"""One log line a request."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import falcon

    from api.request import ApiRequest

__all__ = ["AccessLog"]

_log = logging.getLogger(__name__)


class AccessLog:
    """Middleware that logs what was asked and how it was answered: changes as INFO, reads as DEBUG.

    The query is left out: it may hold a log token. A stream's line is written when the stream begins.
    """

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001
    ) -> None:
        """Write the line."""
        level = logging.DEBUG if req.asked in {"GET", "HEAD", "OPTIONS"} else logging.INFO
        if _log.isEnabledFor(level):
            milliseconds = (time.perf_counter() - req.began) * 1000
            _log.log(level, "%s %r %s %.1f ms", req.asked, req.path, resp.status_code, milliseconds)
