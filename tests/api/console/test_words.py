"""Words of the console."""

from __future__ import annotations

import pytest

from api.console.pages import title_of
from storage import duration


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


def test_a_duration_has_no_unit_of_zero():
    assert list(map(duration, (0, 60, 61, 3600, 3660, 86_400, 90_000))) == [
        "0 s",
        "1 min",
        "1 min 1 s",
        "1 h",
        "1 h 1 min",
        "1 d",
        "1 d 1 h",
    ]
