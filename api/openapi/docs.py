"""The API reference: Swagger UI on this service's OpenAPI document, all of it served from here."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from api.errors.responses import ApiError
from api.http.html_pages import path_to_root, respond_with_page
from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

__all__ = ["ReferenceResource", "RootResource", "StaticFilesResource"]

_HEAD = """<link rel="stylesheet" href="{root}docs/static/swagger-ui.css">
<script defer src="{root}docs/static/swagger-ui-bundle.js"></script>
<script defer src="{root}docs/static/reference.js"></script>"""
_BODY = """<main id="reference"></main>
<noscript>The reference needs JavaScript, the <a href="{root}api/v0/openapi.json">document</a> does not.</noscript>"""

# React sets styles through the DOM, which style-src allows; icons are data: URLs in the style sheet.
_ALLOWED = {
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
}
_HOUR = 3600
_EXCLUDED = re.compile(r"q=0(\.0*)?")


class RootResource:
    """``/``, a redirect to the reference for people; not part of the OpenAPI document."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Redirect to the reference, relatively: a proxy may serve this below a path of its own."""
        resp.status = 302
        resp.location = "docs"


class ReferenceResource:
    """``/docs``."""

    @operation("getReference", Answer(200, "The page.", media_type="text/html"), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the reference, a page on which the endpoints can be tried."""
        root = path_to_root(req)
        respond_with_page(resp, "Reference", _HEAD.format(root=root), _BODY.format(root=root), _ALLOWED)


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


class StaticFilesResource:
    """``/docs/static/{file}``: style sheets and scripts of the pages; not part of the OpenAPI document."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, file: str) -> None:
        """Get a style sheet or a script of these pages."""
        found = _BY_NAME.get(file)
        if found is None:
            raise ApiError("route_not_found", "there is no such file")
        gzipped = found.gzipped and _accepts_gzip(req.get_header("Accept-Encoding") or "")
        content = _content(found, gzipped=gzipped)
        if found.gzipped:
            resp.append_header("Vary", "Accept-Encoding")
        resp.cache_control = [f"max-age={_HOUR}"]
        tag = hashlib.sha256(content).hexdigest()[:32]
        resp.etag = tag
        if req.if_none_match and tag in req.if_none_match:
            resp.status = 304
            return
        resp.content_type = found.media_type
        if gzipped:
            resp.set_header("Content-Encoding", "gzip")
        resp.data = content


def _content(file: _File, *, gzipped: bool) -> bytes:
    stored = resources.files("api.openapi").joinpath("static", file.name + (".gz" if file.gzipped else "")).read_bytes()
    return gzip.decompress(stored) if file.gzipped and not gzipped else stored


def _accepts_gzip(accepted: str) -> bool:
    """Tell whether an Accept-Encoding header allows gzip (RFC 9110, section 12.5.3)."""
    named = dict(each.replace(" ", "").lower().partition(";")[::2] for each in accepted.split(","))
    return _EXCLUDED.fullmatch(named.get("gzip", named.get("*", "q=0"))) is None
