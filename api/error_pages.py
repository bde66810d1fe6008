"""The error pages that ``doc_url`` links to, made from the catalog (wire-decisions.md, "Everywhere")."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from api.catalog import CATALOG
from api.errors import ApiError
from api.operations import Answer, operation, operation_of
from api.pages import prose, root_of, show

if TYPE_CHECKING:
    import falcon

    from api.catalog import Problem
    from api.operations import Routes

__all__ = ["ErrorPages"]

_HTML = "text/html"
_SHOWN = 100


class ErrorPages:
    """``/docs/errors`` and ``/docs/errors/{code}``."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    @operation("listErrors", Answer(200, "The page.", media_type=_HTML), security="public")
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show every error that the service responds with, as a page."""
        docs = f"{root_of(req)}docs"
        rows = "\n".join(
            f"<tr><td>{problem.status}</td>"
            f'<td><a href="{docs}/errors/{problem.code}"><code>{problem.code}</code></a></td>'
            f"<td>{prose(problem.meaning)}</td></tr>"
            for problem in sorted(CATALOG.values(), key=lambda problem: (problem.status, problem.code))
        )
        body = (
            f'<nav><a href="{docs}">Reference</a></nav>\n<h1>Errors</h1>\n'
            f"<table>\n<tr><th>Status</th><th>Code</th><th>What it means</th></tr>\n{rows}\n</table>"
        )
        show(resp, "Errors", f'<link rel="stylesheet" href="{docs}/static/page.css">', body)

    @operation("getError", Answer(200, "The page.", media_type=_HTML), errors=("route_not_found",), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response, code: str) -> None:
        """Show what an error means, where it comes from and what to do about it, as a page."""
        problem = CATALOG.get(code)
        if problem is None:
            raise ApiError("route_not_found", f'no error has the code "{code[:_SHOWN]}"; /docs/errors lists them all')
        docs = f"{root_of(req)}docs"
        body = (
            f'<nav><a href="{docs}">Reference</a> · <a href="{docs}/errors">Errors</a></nav>\n'
            f"<h1><code>{problem.code}</code></h1>\n"
            f'<p class="status">Status {problem.status} {HTTPStatus(problem.status).phrase} ·'
            f" type <code>{problem.type}</code></p>\n"
            f"<h2>What it means, and why it happens</h2>\n<p>{prose(problem.meaning)}</p>\n"
            f"<h2>What to do</h2>\n<p>{prose(problem.remedy)}</p>\n"
            f"<h2>Who answers with it</h2>\n{self._who_answers_with(problem)}"
        )
        show(resp, problem.code, f'<link rel="stylesheet" href="{docs}/static/page.css">', body)

    def _who_answers_with(self, problem: Problem) -> str:
        said = [
            (f"{method.upper()} {path}", described)
            for path, method, responder in self._routes.responders()
            if (described := operation_of(responder)) is not None
        ]
        names = [name for name, described in said if problem.code in described.every_error]
        if len(names) in {0, len(said)}:
            return "<p>Any endpoint may.</p>"
        return "\n".join(["<ul>", *(f"<li><code>{name}</code></li>" for name in names), "</ul>"])
