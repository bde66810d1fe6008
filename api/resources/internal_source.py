"""A build's source archive for the VM that renders it (wire-decisions.md, "The source for a VM")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.http.files import SourceSlice, StoredFile
from api.openapi.operations import Answer, operation
from storage import pattern

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from storage import Storage

_GZIP = "application/gzip"
_BEARER = pattern(r"Bearer +(\S+)", re.IGNORECASE)


class InternalSourceResource:
    """``/api/v0/internal/builds/{build_id}/source.tar.gz``; accepts only the build's runner token."""

    def __init__(self, storage: Storage, rates: RateLimits) -> None:
        self._storage = storage
        self._rates = rates

    @operation("getInternalSource", Answer(200, "The archive.", media_type=_GZIP), errors=("source_not_found",))
    def on_get(self, req: falcon.Request, resp: falcon.Response, build_id: str) -> None:
        """Get the source archive of a build; needs the build's runner token."""
        token = _BEARER.fullmatch(req.auth or "")
        opened = self._storage.runner_tokens.build(token[1]) if token else None
        if opened is None:
            if req.auth is not None:
                self._rates.limit_failures(req)
            raise ApiError.unauthorized("send the build's runner token")
        file = StoredFile(self._storage.sources.path(opened))
        size = file.size()
        if opened != build_id or size is None:
            raise ApiError.not_found("source", build_id)
        resp.content_type = _GZIP
        resp.cache_control = ["no-store"]
        resp.stream = SourceSlice(file, 0, size)
        resp.content_length = size
