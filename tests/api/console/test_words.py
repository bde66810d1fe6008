"""Words of the console."""

from __future__ import annotations

import pytest

from api.console.pages import title_of


@pytest.mark.parametrize(
    ("message", "commit", "title"),
    [
        ("Mend it\n\nAt last.", "c0ffee", "Mend it"),
        ("", "c0ffee" * 6, "Commit c0ffeec"),
        (None, "0" * 40, "A tree without a commit"),
        (" \n", None, "A tree without a commit"),
    ],
)
def test_a_build_has_a_title(message: str | None, commit: str | None, title: str):
    assert title_of(message, commit) == title
