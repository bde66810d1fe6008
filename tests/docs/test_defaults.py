"""Defaults in the prose of pages. Each stands before its key: "30 days (`images.unused_days`)"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_daemon.config.keys import sections

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name != "configuration.md"]
DEFAULTS = {f"{section.name}.{key.name}": key.default for section in sections() for key in section.keys}
KEYS = re.compile(r"\((`[a-z_.]+`(?:, `[a-z_.]+`)*)[;)]")
NUMBERS = {2: "two", 3: "three"}
SECONDS = {600: "ten minutes", 3600: "an hour", 86_400: "a day"}
DAYS = {365: "a year"}


def wording(key: str, default: float) -> str:
    """Return the words in which pages state a default."""
    match re.split(r"[._]", key)[-1]:
        case "gb":
            return f"{default:g} GB"
        case "bytes":
            return f"{default / 2**20:g} MiB"
        case "seconds" | "timeout":
            return SECONDS.get(int(default), f"{default:g} seconds")
        case "days":
            return DAYS.get(int(default), f"{default:g} days")
        case _:
            return NUMBERS.get(int(default), f"{default:,}")


def stated(text: str) -> Iterator[tuple[str, str]]:
    """Yield each key with a number as its default that stands in parentheses, and the sentence before it."""
    text = " ".join(text.split())
    for found in KEYS.finditer(text):
        sentence = re.split(r"[.:;|]\W*\s", text[: found.start()])[-1]
        for key in re.findall(r"[a-z_.]+", found[1]):
            if isinstance(DEFAULTS.get(key), int | float):
                yield key, sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_states_the_declared_defaults(page: Path):
    wrong = {
        key: sentence
        for key, sentence in stated(page.read_text())
        if not re.search(rf"\b{re.escape(wording(key, DEFAULTS[key]))}\b", sentence, re.IGNORECASE)
    }
    assert not wrong


def test_defaults_are_found():
    found = [key for page in PAGES for key, _ in stated(page.read_text())]
    assert len(found) > 15
    text = "Jobs wait. They end after\na day (`pool.queue_timeout`; 0 is never), or after 9 GB (`artifacts.max_gb`)."
    assert list(stated(text)) == [
        ("pool.queue_timeout", "They end after a day "),
        ("artifacts.max_gb", "0 is never), or after 9 GB "),
    ]
