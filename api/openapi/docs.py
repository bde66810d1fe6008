"""The API reference: Swagger UI on this service's OpenAPI document, all of it served from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.http.files import CSS, JAVASCRIPT, StaticFile, StaticFilesResource
from api.http.html_pages import documentation, path_to_root, respond_with_page
from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

_HEAD = """<link rel="stylesheet" href="{root}docs/static/page.css">
<link rel="stylesheet" href="{root}docs/static/swagger-ui.css">
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


class ReferenceResource:
    """``/docs``."""

    @operation("getReference", Answer(200, "The page.", media_type="text/html"), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show the reference, a page on which the endpoints can be tried."""
        root = path_to_root(req)
        body = documentation(root, _BODY.format(root=root))
        respond_with_page(resp, root, "Reference", _HEAD.format(root=root), body, _ALLOWED)


def reference_files() -> StaticFilesResource:
    """Return ``/docs/static/{file}``: what these pages load."""
    return StaticFilesResource(
        "api.openapi",
        StaticFile("page.css", CSS),
        StaticFile("reference.js", JAVASCRIPT),
        StaticFile("swagger-ui.css", CSS, gzipped=True),
        StaticFile("swagger-ui-bundle.js", JAVASCRIPT, gzipped=True),
    )
