"""The console's pages, made from templates, and its errors as pages."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import falcon

from api.console.words import instant, money, plain_text
from api.errors.catalog import ApiError
from api.http.html_pages import path_to_root
from api.state_looks import look_of, state_word
from storage import duration

if TYPE_CHECKING:
    from jinja2 import Environment

    from api.console.cookies import Cookies
    from api.request import ApiRequest

_HTML = "text/html"
_OF_PROGRAMS = ("/api/", "/v0/")
_MOST_DIGITS = 15
_TEMPLATES = Path(__file__).parent / "templates"
_FORMS = "form-action 'self'"
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; {_FORMS};"
    " frame-ancestors 'none'; base-uri 'none'"
)


class Page:
    """A resource that people see in a browser, errors included."""


class Pages:
    """Writes pages. Safe in any thread."""

    def show(self, req: falcon.Request, resp: falcon.Response, template: str, **values: object) -> None:
        """Respond with a page, whose values are text and never HTML; its links begin with ``root``."""
        resp.content_type = falcon.MEDIA_HTML
        resp.cache_control = ["no-store"]
        resp.set_header("Content-Security-Policy", _POLICY)
        signed_in = req.context.get("caller") is not None
        resp.text = self.render(template, root=root_of(req), signed_in=signed_in, **values)

    def allow_redirect(self, resp: falcon.Response, origin: str) -> None:
        """Let the answer to a form of the page that is shown redirect to another origin.

        Browsers check that against the page's policy, too.
        """
        resp.set_header("Content-Security-Policy", _POLICY.replace(_FORMS, f"{_FORMS} {origin}"))

    def render(self, template: str, **values: object) -> str:
        """Return a template as HTML."""
        return _templates().get_template(f"{template}.html").render(**values)

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
            of_form=req.method == "POST",
        )


@cache
def _templates() -> Environment:
    """Return the templates, which all apps share: to compile one takes longer than to write a page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - 50 ms, for the first page

    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "instant": instant,
        "duration": duration,
        "look": look_of,
        "state_word": state_word,
        "money": money,
        "plain": plain_text,
    }
    return templates


class ErrorsAsPages:
    """Middleware that shows the errors of pages, and unknown paths, as pages; those of the API stay JSON."""

    def __init__(self, pages: Pages, cookies: Cookies) -> None:
        self._pages = pages
        self._cookies = cookies

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Show the error, if there is one; a page that needs a session leads to the sign-in, and back."""
        error = resp.context.get("error")
        if not isinstance(error, ApiError):
            return
        if error.problem.code == "route_not_found":
            if _HTML not in req.accept or req.path.startswith(_OF_PROGRAMS):
                return
            self._cookies.caller(req)
        elif not isinstance(resource, Page):
            return
        if error.problem.code == "unauthorized" and req.asked in {"GET", "HEAD"}:
            resp.data = None
            redirect(req, resp, f"login?{urlencode({'next': req.relative_uri})}")
        else:
            self._pages.show_error(req, resp, error)


def redirect(req: falcon.Request, resp: falcon.Response, page: str) -> None:
    """Redirect to a page such as ``account``, relatively: a proxy may serve this below a path."""
    resp.status = 303
    resp.location = root_of(req) + page


def root_of(req: falcon.Request) -> str:
    """Return the relative path to the service's root. What follows cannot be taken for another host."""
    return f"./{path_to_root(req)}"


def whole_number(text: str | None) -> int | None:
    """Return the number in a page's address at which a list goes on; None if it is not a number."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None
