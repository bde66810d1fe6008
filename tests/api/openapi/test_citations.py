"""Citations of the design pages: docstrings have them, but served texts do not.

Descriptions are made from docstrings, and those pages are for people who work on the service.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import api
from api.errors.catalog import error_catalog
from tests.api.world import World

FILE = re.compile(r"[\w-]+\.md\b")
SECTION = re.compile(r'\.md, ("[^"]+")')
PAGES = ("/docs", "/docs/errors", *(f"/docs/errors/{code}" for code in error_catalog()))


@pytest.fixture(scope="module")
def sections() -> set[str]:
    """The sections, in quotes, that docstrings of the API cite."""
    found = {name for file in Path(api.__file__).parent.rglob("*.py") for name in SECTION.findall(file.read_text())}
    assert found
    return found


def texts(value: object) -> Iterator[str]:
    """Yield every string in a JSON document, names of members too."""
    match value:
        case str():
            yield value
        case dict():
            yield from (text for pair in value.items() for each in pair for text in texts(each))
        case list():
            yield from (text for each in value for text in texts(each))


def citations(text: str, sections: set[str]) -> list[str]:
    return FILE.findall(text) + [section for section in sections if section in text]


def test_the_document_cites_no_design_page(world: World, sections: set[str]):
    document = world.anonymous.simulate_get("/api/v0/openapi.json").json
    assert citations("\n".join(texts(document)), sections) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_cites_no_design_page(world: World, sections: set[str], page: str):
    answered = world.anonymous.simulate_get(page)
    assert answered.status_code == 200
    assert citations(html.unescape(answered.text), sections) == []
