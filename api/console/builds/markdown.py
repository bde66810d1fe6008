"""Markdown of jobs as HTML, made in a confined process (`storage.files.confinement`)."""

from __future__ import annotations

from markdown_it import MarkdownIt

_BELOW = 2
_SMALLEST = 6
_MOST_NESTED = 20


def html_of(text: str) -> str:
    """Return a text as HTML that is safe to be part of a page.

    HTML in it is shown as text, and so is a link to a script. Images are links, as a page loads nothing of strangers,
    and headings are below the page's own.
    """
    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": _MOST_NESTED})
    markdown.enable(["table", "strikethrough"]).disable("image")
    environment: dict[str, object] = {}
    tokens = markdown.parse(text, environment)
    for token in tokens:
        if token.type.startswith("heading_"):
            token.tag = f"h{min(_SMALLEST, int(token.tag[1:]) + _BELOW)}"
        for inner in token.children or ():
            if inner.type == "link_open":
                inner.attrSet("rel", "nofollow noopener noreferrer")
    return str(markdown.renderer.render(tokens, markdown.options, environment))
