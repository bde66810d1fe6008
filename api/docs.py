"""The API reference: Swagger UI on this service's OpenAPI document, all of it served from here."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from api.errors import ApiError
from api.operations import Answer, operation
from api.pages import root_of, show

if TYPE_CHECKING:
    import falcon

__all__ = ["Docs", "Root", "Static"]

_HEAD = """<link rel="stylesheet" href="{root}docs/static/swagger-ui.css">
<script defer src="{root}docs/static/swagger-ui-bundle.js"></script>
<script defer src="{root}docs/static/reference.js"></script>"""
_BODY = """<main id="reference"></main>
<noscript>The reference needs JavaScript; its <a href="{root}api/v0/openapi.json">document</a> does not.</noscript>"""

# React sets styles through the DOM, which style-src allows; icons are data: URLs in the style sheet.
_ALLOWED = {
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
}
_HOUR = 3600


class Root:
    """``/``, a redirect to the reference for people; not part of the OpenAPI document."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Redirect to the reference, relatively: a proxy may serve this below a path of its own."""
        resp.status = 302
        resp.location = "docs"


class Docs:
    """``/docs``."""

    @operation("getReference", Answer(200, "The page.", media_type="text/html"), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the reference, a page on which the endpoints can be tried."""
        root = root_of(req)
        show(resp, "Reference", _HEAD.format(root=root), _BODY.format(root=root), _ALLOWED)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    media_type: str
    gzipped: bool = False


_FILES = (
    _File("page.css", "text/css; charset=utf-8"),
    _File("reference.js", "text/javascript; charset=utf-8"),
    _File("swagger-ui.css", "text/css; charset=utf-8", gzipped=True),
    _File("swagger-ui-bundle.js", "text/javascript; charset=utf-8", gzipped=True),
)
_BY_NAME = {file.name: file for file in _FILES}


class Static:
    """``/docs/static/{file}``: style sheets and scripts of the pages; not part of the OpenAPI document.

    Files that are stored compressed are sent compressed: every browser that shows these pages accepts gzip.
    """

    def on_get(self, req: falcon.Request, resp: falcon.Response, file: str) -> None:
        """Get a style sheet or a script of these pages."""
        found = _BY_NAME.get(file)
        if found is None:
            raise ApiError("route_not_found", "there is no such file")
        content = _content(found)
        resp.cache_control = [f"max-age={_HOUR}"]
        tag = hashlib.sha256(content).hexdigest()[:32]
        resp.etag = tag
        if req.if_none_match and tag in req.if_none_match:
            resp.status = 304
            return
        resp.content_type = found.media_type
        if found.gzipped:
            resp.set_header("Content-Encoding", "gzip")
        resp.data = content


def _content(file: _File) -> bytes:
    return resources.files("api").joinpath("static", file.name + (".gz" if file.gzipped else "")).read_bytes()
