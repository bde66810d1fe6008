"""Slugs and e-mail addresses."""

from __future__ import annotations

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import EmailInvalid, email_address, slugify
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


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ada@example.org", "ada@example.org"),
        ("  Ada.Lovelace+CI@Example.ORG\n", "ada.lovelace+ci@example.org"),
        ("root@localhost", "root@localhost"),
        ("ada@corp.local", "ada@corp.local"),
        ("ada@exämple.de", "ada@xn--exmple-cua.de"),
    ],
)
def test_an_address_has_one_form(text: str, address: str):
    assert email_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "@b",
        "a@",
        "a,b@c",
        "a@[",
        "a@[1.2.3.4]",
        "a b@c",
        '"a"@b',
        "<a@b>",
        "a@b,c@d",
        "a@b\nBcc: c@d",
        "a..b@c",
    ],
)
def test_what_is_not_one_address_is_refused(text: str):
    with pytest.raises(EmailInvalid, match=r"."):
        email_address(text)
