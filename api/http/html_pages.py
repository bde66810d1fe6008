"""HTML pages for people. They load nothing from other hosts, and pages of text run no scripts."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import falcon

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT_ONLY: Mapping[str, str] = {"style-src": "'self'", "img-src": "'self'"}
"""The sources from which a page of text may load, as directives of its content security policy."""

_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_DOCUMENTATION = (("", "Manual"), ("/api", "Endpoints"), ("/errors", "Errors"))
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{root}console/static/icon.svg" type="image/svg+xml">
{head}
</head>
<body>
{body}
</body>
</html>
"""


def respond_with_page(
    resp: falcon.Response, root: str, title: str, head: str, body: str, allowed: Mapping[str, str] = TEXT_ONLY
) -> None:
    """Respond with a page; ``head`` and ``body`` are HTML, ``title`` is text.

    ``root`` is the relative path to the service's root. ``allowed`` are the sources from which the page may load, as
    directives of its content security policy.
    """
    resp.content_type = falcon.MEDIA_HTML
    policy = [_NOTHING_ELSE, *(f"{directive} {sources}" for directive, sources in allowed.items())]
    resp.set_header("Content-Security-Policy", "; ".join(policy))
    resp.text = _PAGE.format(root=root, title=html.escape(title), head=head, body=body)


def documentation(root: str, content: str) -> str:
    """Return a page of the API's documentation as HTML, with links to its others and the manual."""
    links = " ".join(f'<a href="{root}docs{page}">{text}</a>' for page, text in _DOCUMENTATION)
    home = f'<a class="brand" href="{root or "./"}">ci-daemon</a>'
    return f'<header>{home}<nav aria-label="Documentation">{links}</nav></header>\n{content}'


def path_to_root(req: falcon.Request) -> str:
    """Return the relative path from the requested page to the service's root: empty, or some ``../``.

    Links are relative because a proxy may serve this below a path of its own. A path with a trailing slash is the same
    page, but to a browser it is one level deeper.
    """
    path: str = req.env["PATH_INFO"]
    return "../" * (path.count("/") - 1)


def inline_html(text: str) -> str:
    """Return a sentence as HTML; text between backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
