"""The console's pages, made from templates, and its errors as pages."""

from __future__ import annotations

from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import falcon

from api.errors.responses import ApiError
from api.http.html_pages import path_to_root

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment

    from api.request import ApiRequest

__all__ = ["ErrorsAsPages", "Page", "Pages", "redirect"]

_TEMPLATES = Path(__file__).parent / "templates"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self';"
    " frame-ancestors 'none'; base-uri 'none'"
)


class Page:
    """A resource that people see in a browser, errors included."""


class Pages:
    """Writes pages. Safe in any thread."""

    @cached_property
    def _templates(self) -> Environment:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - 50 ms, for the first page

        templates = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        templates.filters["instant"] = _instant
        return templates

    def show(self, req: falcon.Request, resp: falcon.Response, template: str, **values: object) -> None:
        """Respond with a page, whose values are text and never HTML; its links begin with ``root``."""
        resp.content_type = falcon.MEDIA_HTML
        resp.cache_control = ["no-store"]
        resp.set_header("Content-Security-Policy", _POLICY)
        found = self._templates.get_template(f"{template}.html")
        resp.text = found.render(root=_root(req), **values)

    def show_error(self, req: ApiRequest, resp: falcon.Response, error: ApiError) -> None:
        """Respond with a page about a refusal."""
        resp.data = None
        problem = error.problem
        self.show(
            req,
            resp,
            "error",
            title=HTTPStatus(problem.status).phrase,
            message=error.message,
            problem=problem,
            request_id=req.request_id,
        )


class ErrorsAsPages:
    """Middleware that shows the errors of pages as pages; those of the API stay JSON."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Show the error, if there is one."""
        error = resp.context.get("error")
        if isinstance(resource, Page) and isinstance(error, ApiError):
            self._pages.show_error(req, resp, error)


def redirect(req: falcon.Request, resp: falcon.Response, page: str) -> None:
    """Redirect to a page such as ``account``, relatively: a proxy may serve this below a path."""
    resp.status = 303
    resp.location = _root(req) + page


def _root(req: falcon.Request) -> str:
    """Return the relative path to the service's root. What follows cannot be taken for another host."""
    return f"./{path_to_root(req)}"


def _instant(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
