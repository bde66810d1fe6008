"""Citations in docstrings and comments: each leads to a heading in `docs/design/` or `docs/`.

The form is ``PAGE.md, "HEADING"``, with as many headings as it needs.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs"
DESIGN = DOCS / "design"
CODE = ("actors", "api", "benchmarks", "ci_daemon", "storage")
CITATION = re.compile(r'(?<![\w./-])(?P<page>\w[\w/-]*\.md)\b(?P<headings>(?:, "[^"]+")*)')
URL = re.compile(r"\w+://\S+")


def prose(source: str) -> Iterator[str]:
    """Yield each docstring of a module, and all its comments as one text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield text
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    yield " ".join(token.string.removeprefix("#") for token in tokens if token.type == tokenize.COMMENT)


@cache
def headings(page: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE))


def faults(text: str, *, whole: bool = False) -> list[str]:
    """Return what is wrong with the citations in a text; ``whole`` lets it cite a design page as a whole."""
    found = []
    for cited in CITATION.finditer(URL.sub("", " ".join(text.split()))):
        name, named = cited["page"], re.findall(r'"([^"]+)"', cited["headings"])
        page = next((file for file in (DESIGN / name, DOCS / name, CHECKOUT / name) if file.is_file()), None)
        if page is None:
            found.append(f"there is no page {name}")
        elif page.parent == DESIGN and not named and not whole:
            found.append(f"{name} is cited without a heading")
        else:
            found += [f'{name} has no heading "{each}"' for each in named if each not in headings(page)]
    return found


def passages(*folders: str) -> list[tuple[str, str]]:
    """Return the file and text of each docstring and comment below these folders that names a page."""
    files = sorted(file for folder in folders for file in (CHECKOUT / folder).rglob("*.py") if file != Path(__file__))
    sources = ((str(file.relative_to(CHECKOUT)), file.read_text()) for file in files if "/data/" not in str(file))
    return [(name, text) for name, source in sources if ".md" in source for text in prose(source) if ".md" in text]


def test_every_citation_of_the_code_leads_to_a_heading():
    cited = passages(*CODE)
    assert len(cited) > 150
    assert not [(file, fault) for file, text in cited for fault in faults(text)]


def test_every_citation_of_the_tests_leads_to_a_heading():
    assert not [(file, fault) for file, text in passages("tests") for fault in faults(text, whole=True)]


def test_the_citation_of_the_error_catalog_leads_to_a_heading():
    comments = re.findall(r"^# (.*)$", (CHECKOUT / "api" / "errors" / "catalog.toml").read_text(), re.MULTILINE)
    assert "wire-decisions.md" in " ".join(comments)
    assert faults(" ".join(comments)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('Retries (engine.md, "States").', None),
        ('Two (engine.md, "States", "Logs"; wire-decisions.md, "Slugs").', None),
        ('Over\n    lines (engine.md, "After a\n    crash").', None),
        ("See `docs/security.md`, https://example.org/nothing.md.", None),
        ('Retries (engine.md, "Retries").', 'engine.md has no heading "Retries"'),
        ('Two (engine.md, "States", "Retries").', 'engine.md has no heading "Retries"'),
        ('Caches (no-page.md, "Caches").', "there is no page no-page.md"),
        ("Retries (engine.md).", "engine.md is cited without a heading"),
        ("Retries (engine.md, States).", "engine.md is cited without a heading"),
        ("See `docs/no-page.md`.", "there is no page docs/no-page.md"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, fault: str | None):
    assert faults(text) == ([] if fault is None else [fault])
