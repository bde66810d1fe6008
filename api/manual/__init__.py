"""The manual: the pages of `docs/` as HTML, with a table of contents and a search.

The pages are the project's own, so they are read and made into HTML in this process, each once.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.token import Token

PAGES = Path(__file__).parent / "pages"
"""The Markdown. In a checkout it is a link to `docs/`."""

_TASKS = ("watch", "capacity", "vms", "disk", "access", "backup", "trouble")

CONTENTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Begin", ("tutorial", "recipes", "coming-from", "migration")),
    ("Write pipelines", ("pipelines", "triggers", "run", "lint", "time-travel", "flaky-tests", "culprits")),
    ("Merge and deploy", ("merge-queue", "environments", "job-identity", "provenance")),
    ("Connect a repository", ("connect", "github", "gitlab", "forgejo", "bitbucket", "git-servers")),
    ("Use it", ("console", "cli", "notifications", "troubleshooting")),
    ("Install", ("install", "signing-in", "passkeys", "identity-providers", "payments", "fleet")),
    ("Run it", ("operations", *(f"operations-{task}" for task in _TASKS))),
    ("Reference", ("language", "commands", "configuration", "using-the-api", "glossary")),
    ("Explanation", ("architecture", "security")),
)
"""The parts of the manual, each with the names of its pages in the order in which they are read."""

BESIDE = ("sign-in-github", "sign-in-google", "sign-in-openid-connect")
"""Pages that others lead to and the table of contents does not name."""

_ROOT = "\0"
"""Stands in HTML for the path to the service's root. No text has it, as Markdown replaces it."""

_MOST_WORDS = 8
_MOST_FOUND = 30
_AROUND = 90
_IN_HEADING, _IN_TITLE = 20, 10


@immutable
class Heading:
    """A heading below the title: its level (2 or 3), its anchor and its text."""

    level: int
    anchor: str
    text: str


@immutable
class ManualPage:
    """A page; ``body`` is its HTML below the title."""

    name: str
    title: str
    headings: tuple[Heading, ...]
    body: str

    def html(self, root: str) -> Markup:
        """Return the page's HTML below the title; ``root`` is the path to the service's root, or empty."""
        return Markup(self.body.replace(_ROOT, root))  # noqa: S704 - made of a page of the project


@immutable
class Found:
    """A section that has all words of a search.

    ``around`` is its text around the first of them, in pieces: every second piece is one of the words.
    """

    page: str
    title: str
    anchor: str
    heading: str
    around: tuple[str, ...]


@immutable
class _Section:
    page: str
    title: str
    anchor: str
    heading: str
    text: str
    lower: str


def names() -> frozenset[str]:
    """Return the names of all pages that are served."""
    return frozenset({name for _, part in CONTENTS for name in part} | set(BESIDE))


@cache
def title_of(name: str) -> str:
    """Return the title of a page."""
    with (PAGES / f"{name}.md").open(encoding="utf-8") as page:
        return page.readline().removeprefix("# ").replace("`", "").strip()


@cache
def page_of(name: str) -> ManualPage | None:
    """Return a page; None if the manual has no such page."""
    if name not in names():
        return None
    from markdown_it import MarkdownIt  # noqa: PLC0415 - a service whose manual nobody reads needs none

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    headings = tuple(_anchored(tokens))
    for token in tokens:
        if token.type == "table_open":  # a wide one is scrolled, also by keyboard
            token.attrSet("tabindex", "0")
        for inner in token.children or ():
            _lead(inner, name)
    first = next((at for at, token in enumerate(tokens) if token.type == "heading_close"), -1) + 1
    body = str(markdown.renderer.render(tokens[first:], markdown.options, {}))
    return ManualPage(name, title_of(name), headings, body)


def _anchored(tokens: Sequence[Token]) -> Iterator[Heading]:
    """Give headings their anchors, as GitHub makes them; yield those of the second and third level."""
    used: dict[str, int] = {}
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = "".join(each.content for each in inline.children or ())
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        used[anchor] = again = used.get(anchor, -1) + 1
        if again:
            anchor = f"{anchor}-{again}"
        opening.attrSet("id", anchor)
        level = int(opening.tag[1:])
        if level in {2, 3}:
            yield Heading(level, anchor, text)


def _lead(token: Token, page: str) -> None:
    """Lead a link or picture to where the service has it; a link to anything else, nowhere."""
    if token.type == "image":
        token.attrSet("src", f"{_ROOT}docs/{token.attrGet('src')}")
        token.attrSet("loading", "lazy")
    if token.type != "link_open":
        return
    target = urlsplit(str(token.attrGet("href") or ""))
    if target.scheme:
        token.attrSet("rel", "noreferrer")
        return
    name = target.path.removesuffix(".md") or page
    if name not in names():
        del token.attrs["href"]
        return
    token.attrSet("href", f"{_ROOT}docs/{name}" + (f"#{target.fragment}" if target.fragment else ""))


def find(words: str) -> list[Found]:
    """Return the sections that have all words, at most 30; those with them in headings come first."""
    wanted = words.lower().split()[:_MOST_WORDS]
    if not wanted:
        return []
    hits = [section for section in _sections() if all(word in section.lower for word in wanted)]
    hits.sort(key=lambda section: -_weight(section, wanted))
    return [_found(section, wanted) for section in hits[:_MOST_FOUND]]


def _weight(section: _Section, wanted: Sequence[str]) -> int:
    heading, title = section.heading.lower(), section.title.lower()
    named = sum(_IN_HEADING * (word in heading) + _IN_TITLE * (word in title) for word in wanted)
    return named + min(_IN_TITLE, sum(section.lower.count(word) for word in wanted))


def _found(section: _Section, wanted: Sequence[str]) -> Found:
    at = min((place for word in wanted if (place := section.text.lower().find(word)) >= 0), default=0)
    begin, end = max(0, at - _AROUND), at + _AROUND
    text = ("…" if begin else "") + section.text[begin:end] + ("…" if end < len(section.text) else "")
    around = re.split(f"({'|'.join(map(re.escape, wanted))})", text, flags=re.IGNORECASE)
    return Found(section.page, section.title, section.anchor, section.heading, tuple(around))


@cache
def _sections() -> tuple[_Section, ...]:
    """Return all sections of all pages, in the order of the table of contents."""
    ordered = (*(name for _, part in CONTENTS for name in part), *BESIDE)
    return tuple(section for name in ordered for section in _sections_of(name))


def _sections_of(name: str) -> Iterator[_Section]:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - as above

    tokens = MarkdownIt("commonmark").enable("table").parse((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    list(_anchored(tokens))
    title = title_of(name)
    anchor, heading, texts = "", title, list[str]()
    for opening, token in zip([None, *tokens], tokens, strict=False):
        if opening is not None and opening.type == "heading_open":
            if texts:
                yield _section(name, title, anchor, heading, texts)
            heading, texts = _text_of(token), []
            anchor = "" if opening.tag == "h1" else str(opening.attrGet("id"))
        elif token.type in {"inline", "fence", "code_block"}:
            texts.append(_text_of(token))
    yield _section(name, title, anchor, heading, texts)


def _section(name: str, title: str, anchor: str, heading: str, texts: Sequence[str]) -> _Section:
    text = " ".join(" ".join(texts).split())
    return _Section(name, title, anchor, heading, text, f"{title} {heading} {text}".lower())


def _text_of(token: Token) -> str:
    children: Sequence[Any] = token.children or ()
    return "".join(child.content or " " * (child.type == "softbreak") for child in children) or token.content
