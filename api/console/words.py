"""Instants, titles and amounts in words, as pages show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_COMMIT_CHARS = 7
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def instant(moment: datetime) -> str:
    """Return an instant to the minute."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


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
