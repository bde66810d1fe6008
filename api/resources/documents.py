"""The OpenAPI document, the reference, and the pages of errors (wire-decisions.md, "Everywhere").

The reference is Swagger UI, all of it served from here. The pages of errors, to which
``doc_url`` links, are made from the catalog.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

import falcon

from actors.ir import json_schema
from api.errors.catalog import ApiError, error_catalog
from api.http.files import CSS, ETAG, JAVASCRIPT, NOT_MODIFIED, StaticFile, StaticFilesResource, answer_unless_known
from api.http.html_pages import documentation, inline_html, path_to_root, respond_with_page
from api.openapi.document import document
from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    from api.errors.catalog import Problem
    from api.openapi.operations import Routes

_HTML = "text/html"
_CHARS = 100


class OpenApiResource:
    """``/api/v0/openapi.json``."""

    def __init__(self, routes: Routes, base_url: str) -> None:
        self._routes = routes
        self._base_url = base_url
        self._encoded: bytes | None = None

    @operation(
        "getOpenApi",
        Answer(200, "The document.", media_type="application/json", headers=ETAG),
        NOT_MODIFIED,
        security="public",
        tag="openapi",
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get this document."""
        if self._encoded is None:  # anybody may ask for it, and encoding it takes the time of many other requests
            self._encoded = json.dumps(document(self._routes, self._base_url), ensure_ascii=False).encode()
        answer_unless_known(req, resp, self._encoded, falcon.MEDIA_JSON)


class PipelineSchemaResource:
    """``/api/v0/pipeline.schema.json``."""

    def __init__(self) -> None:
        self._encoded: bytes | None = None

    @operation(
        "getPipelineSchema",
        Answer(200, "The JSON Schema.", media_type="application/json", headers=ETAG),
        NOT_MODIFIED,
        security="public",
        tag="openapi",
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the JSON Schema of pipelines, for editors."""
        if self._encoded is None:
            self._encoded = json.dumps(json_schema()).encode()
        answer_unless_known(req, resp, self._encoded, falcon.MEDIA_JSON)


class ErrorPagesResource:
    """``/docs/errors`` and ``/docs/errors/{code}``."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    @operation("listErrors", Answer(200, "The page.", media_type=_HTML), security="public", tag="errors")
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show all errors of the API, as a page."""
        root = path_to_root(req)
        docs = f"{root}docs"
        rows = "\n".join(
            f"<tr><td>{problem.status}</td>"
            f'<td><a href="{docs}/errors/{problem.code}"><code>{problem.code}</code></a></td>'
            f"<td>{inline_html(problem.meaning)}</td></tr>"
            for problem in sorted(error_catalog().values(), key=lambda problem: (problem.status, problem.code))
        )
        body = (
            '<main class="text">\n<h1>Errors</h1>\n'
            f"<table>\n<tr><th>Status</th><th>Code</th><th>Meaning</th></tr>\n{rows}\n</table>\n</main>"
        )
        head = f'<link rel="stylesheet" href="{docs}/static/page.css">'
        respond_with_page(resp, root, "Errors", head, documentation(root, body))

    @operation(
        "getError",
        Answer(200, "The page.", media_type=_HTML),
        errors=("route_not_found",),
        security="public",
        tag="errors",
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, code: str) -> None:
        """Show an error's meaning, endpoints and remedy, as a page."""
        problem = error_catalog().get(code)
        if problem is None:
            raise ApiError("route_not_found", f'no error has the code "{code[:_CHARS]}"; /docs/errors lists them all')
        root = path_to_root(req)
        docs = f"{root}docs"
        body = (
            f'<main class="text">\n<h1><code>{problem.code}</code></h1>\n'
            f'<p class="status">Status {problem.status} {HTTPStatus(problem.status).phrase} ·'
            f" type <code>{problem.type}</code></p>\n"
            f"<h2>Meaning</h2>\n<p>{inline_html(problem.meaning)}</p>\n"
            f"<h2>What to do</h2>\n<p>{inline_html(problem.remedy)}</p>\n"
            f"<h2>Endpoints</h2>\n{self._endpoints_with(problem)}\n</main>"
        )
        head = f'<link rel="stylesheet" href="{docs}/static/page.css">'
        respond_with_page(resp, root, problem.code, head, documentation(root, body))

    def _endpoints_with(self, problem: Problem) -> str:
        endpoints = self._routes.endpoints
        names = [
            f"{endpoint.method.upper()} {endpoint.path}"
            for endpoint in endpoints
            if problem.code in endpoint.operation.every_error
        ]
        if len(names) in {0, len(endpoints)}:
            return "<p>All endpoints.</p>"
        return "\n".join(["<ul>", *(f"<li><code>{name}</code></li>" for name in names), "</ul>"])


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
    """``/docs/api``."""

    @operation("getReference", Answer(200, "The page.", media_type=_HTML), security="public", tag="openapi")
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
