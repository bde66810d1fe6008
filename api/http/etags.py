"""ETags: a client that has the current body gets 304 without it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from api.openapi.operations import Answer

if TYPE_CHECKING:
    import falcon

ETAG = {"ETag": "Changes with the body."}
NOT_MODIFIED = Answer(304, "`If-None-Match` has the current `ETag`.")


def answer_unless_known(req: falcon.Request, resp: falcon.Response, body: bytes, content_type: str) -> None:
    """Respond with a body and its ETag, or with 304 if the client sent that ETag in ``If-None-Match``."""
    tag = hashlib.sha256(body).hexdigest()[:32]
    resp.etag = tag
    known = req.if_none_match or []
    if "*" in known or tag in known:
        resp.status = 304
    else:
        resp.content_type = content_type
        resp.data = body
