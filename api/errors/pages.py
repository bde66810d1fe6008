"""The error pages that ``doc_url`` links to, made from the catalog (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError, error_catalog
from api.http.html_pages import documentation, inline_html, path_to_root, respond_with_page
from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

    from api.errors.catalog import Problem
    from api.openapi.operations import Routes

_HTML = "text/html"
_CHARS = 100


class ErrorPagesResource:
    """``/docs/errors`` and ``/docs/errors/{code}``."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    @operation("listErrors", Answer(200, "The page.", media_type=_HTML), security="public")
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

    @operation("getError", Answer(200, "The page.", media_type=_HTML), errors=("route_not_found",), security="public")
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
