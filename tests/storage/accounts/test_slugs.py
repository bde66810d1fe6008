from __future__ import annotations

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import slugify
from storage.accounts.names import MAX_SLUG, slug_candidates


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Acme Inc", "acme-inc"),
        ("a.b@c.org", "a-b-c-org"),
        ("--Hello,   World!--", "hello-world"),
        ("Müller & Søn", "muller-s-n"),
        ("ﬁle", "file"),
        ("日本", ""),
        ("", ""),
        ("x" * 100, "x" * 63),
        ("a" * 62 + " b", "a" * 62),
    ],
)
def test_a_name_becomes_a_slug(name: str, slug: str):
    assert slugify(name) == slug


@given(st.text())
def test_any_name_becomes_a_valid_slug_or_none(name: str):
    """A slug stays as it is."""
    slug = slugify(name)
    assert slug == "" or re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug)
    assert len(slug) <= MAX_SLUG
    assert slugify(slug) == slug


def test_candidates_are_numbered_from_2_and_within_the_limit():
    assert list(islice(slug_candidates("acme"), 3)) == ["acme", "acme-2", "acme-3"]
    long = list(islice(slug_candidates("a" * 60 + "-bc"), 12))
    assert long[1] == "a" * 60 + "-2"
    assert all(len(candidate) <= MAX_SLUG for candidate in long)
    assert len(set(long)) == 12
