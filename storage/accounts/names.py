"""Names of accounts in their normal form: slugs and e-mail addresses (wire-decisions.md, "Slugs")."""

from __future__ import annotations

import unicodedata
from itertools import count
from typing import TYPE_CHECKING

from storage.errors import EmailInvalid
from storage.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_SLUG = 63
RESERVED_SLUGS = frozenset(
    {
        "account",
        "admin",
        "api",
        "badges",
        "billing",
        "cli-login",
        "console",
        "docs",
        "healthz",
        "integrations",
        "invites",
        "login",
        "metrics",
        "new",
        "organizations",
        "public",
        "search",
        "sites",
        "static",
        "v0",
        "v2",
        "webhooks",
    }
)
"""First parts of the paths of the service itself; pages of an organization are at ``/{slug}``."""

_UNUSABLE = pattern("[^a-z0-9]+")


def slugify(name: str) -> str:
    """Return the slug of a name: at most 63 characters of ``a-z0-9-``, empty if no character is usable.

    Accents are dropped: NFKD separates them from their letters.
    """
    decomposed = unicodedata.normalize("NFKD", name).lower()
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return _UNUSABLE.sub("-", plain).strip("-")[:MAX_SLUG].rstrip("-")


def slug_candidates(slug: str) -> Iterator[str]:
    """Yield a slug, then the same with ``-2``, ``-3`` and so on, each of at most 63 characters."""
    yield slug
    suffixes = (f"-{number}" for number in count(2))
    yield from (slug[: MAX_SLUG - len(suffix)].rstrip("-") + suffix for suffix in suffixes)


_PUBLIC = ".example.org"
"""Appended to the domain for the check: the library refuses private domains such as corp.local."""


def email_address(text: str) -> str:
    """Return an address trimmed, in lower case, with its domain in ASCII. Raises EmailInvalid."""
    from email_validator import EmailNotValidError, validate_email  # noqa: PLC0415 - 60 ms for a command that needs none

    try:
        found = validate_email(f"{text.strip()}{_PUBLIC}", check_deliverability=False, allow_smtputf8=False)
    except EmailNotValidError as error:
        raise EmailInvalid(str(error)) from None
    return (found.ascii_email or "").lower().removesuffix(_PUBLIC)
