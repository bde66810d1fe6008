"""The console's pages, made from templates."""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import falcon

from api.console.cookies import local_path
from api.console.errors import Page
from api.http.html_pages import path_to_root
from api.state_looks import look_of, state_word
from storage import duration, immutable

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment
    from markupsafe import Markup

    from api.console.cookies import Cookies
    from api.errors.catalog import ApiError
    from api.request import ApiRequest
    from storage import Organization, Storage, User

_MOST_DIGITS = 15
_TEMPLATES = Path(__file__).parent / "templates"
_FORMS = "form-action 'self'"
_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; {_FORMS};"
    " frame-ancestors 'none'; base-uri 'none'"
)

_COMMIT_CHARS = 7
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


_MOST_ORGANIZATIONS = 50
_THEME = "theme"
_THEMES = ("light", "dark")
_THEME_SECONDS = 365 * 24 * 3600


@immutable
class Header:
    """The head of every page: the user, the user's organizations, and the one that the page is about.

    ``owner`` is true for the owner of the host. ``theme`` is empty if the browser chooses, ``here`` the page's own
    path, to come back to.
    """

    user: User | None
    organizations: tuple[Organization, ...]
    organization: Organization | None
    form_token: str
    owner: bool
    theme: str
    here: str


class Pages:
    """Writes pages. Safe in any thread."""

    def __init__(self, storage: Storage, cookies: Cookies) -> None:
        self._organizations = storage.organizations
        self._cookies = cookies

    def show(self, req: falcon.Request, resp: falcon.Response, template: str, **values: object) -> None:
        """Respond with a page, whose values are text and never HTML; its links begin with ``root``."""
        resp.content_type = falcon.MEDIA_HTML
        resp.cache_control = ["no-store"]
        resp.set_header("Content-Security-Policy", _POLICY)
        resp.text = self.render(template, root=root_of(req), header=self._header(req), **values)

    def _header(self, req: falcon.Request) -> Header:
        caller, owner = req.context.get("caller"), self._cookies.owner(req) is not None
        theme = req.cookies.get(_THEME, "")
        theme, here = theme if theme in _THEMES else "", req.path + (f"?{req.query_string}" if req.query_string else "")
        if caller is None:
            return Header(None, (), None, "", owner, theme, here)
        found = self._organizations.page(caller.user.id, _MOST_ORGANIZATIONS, None).rows
        first = req.path.split("/")[1]
        about = next((each for each in found if each.slug == first), None)
        return Header(caller.user, tuple(found), about, self._cookies.form_token(req), owner, theme, here)

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


class ThemePage(Page):
    """``/console/theme``, where the form in the header leads: the browser keeps the theme, or forgets it.

    The form has no token and is a GET, because it changes nothing of the service.
    """

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Lead back to the page."""
        theme = req.get_param("theme") or ""
        kept = theme in _THEMES
        resp.set_cookie(
            _THEME,
            theme if kept else "",
            max_age=_THEME_SECONDS if kept else -1,
            path="/",
            secure=False,  # it is no secret, and public pages over plain http have a theme, too
            http_only=True,
            same_site="Lax",
        )
        redirect(req, resp, local_path(req.get_param("next") or ""))


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
        "when": when,
        "duration": duration,
        "look": look_of,
        "state_word": state_word,
        "money": money,
        "plain": plain_text,
    }
    return templates


def redirect(req: falcon.Request, resp: falcon.Response, page: str) -> None:
    """Redirect to a page such as ``account``, relatively: a proxy may serve this below a path."""
    resp.status = 303
    resp.location = root_of(req) + page


def root_of(req: falcon.Request) -> str:
    """Return the relative path to the service's root. What follows cannot be taken for another host."""
    return f"./{path_to_root(req)}"


def whole_number(text: str | None) -> int | None:
    """Return the number that a browser sent, as one at which a list goes on; None if it is none."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def instant(moment: datetime) -> str:
    """Return an instant to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def when(moment: datetime) -> Markup:
    """Return an instant as an element, in UTC; a script of the page says it in the reader's time."""
    from markupsafe import Markup  # noqa: PLC0415 - as the templates, for the first page

    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), instant(moment))


def money(cents: int) -> str:
    """Return an amount of the ledger's currency, whose name the ledger does not know."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100:,}.{abs(cents) % 100:02}"


def title_of(message: str | None, commit: str | None) -> str:
    """Return the first line of a commit's message; without one the beginning of the commit's hash.

    A tree that is sent without git has a commit of zeros.
    """
    first = (message or "").strip().partition("\n")[0].strip()
    named = f"Commit {commit[:_COMMIT_CHARS]}" if commit and commit.strip("0") else "A tree without a commit"
    return first or named


def plain_text(text: str) -> str:
    """Return text without escapes and controls; of a line only what follows its last carriage return."""
    lines = _ESCAPES.sub("", text).split("\n")
    return _CONTROLS.sub("", "\n".join(line.removesuffix("\r").rpartition("\r")[2] for line in lines))
