"""People who get mail about builds: they proved their address, or the owner allows its domain."""

from __future__ import annotations

import pytest

from actors.notifications.announcing import recipient_of

MEMBERS = {"ada@example.org", "bob@example.org"}


@pytest.mark.parametrize(
    ("candidate", "address", "refused"),
    [
        ("ada@example.org", "ada@example.org", False),
        ("Ada@Example.ORG", "ada@example.org", False),
        ("carl@corp.example", "carl@corp.example", False),
        ("bob@example.org", "bob@example.org", True),
        ("victim@elsewhere.example", "victim@elsewhere.example", True),
        ("victim@sub.corp.example", "victim@sub.corp.example", True),
        ("x@corp.example.evil.example", "x@corp.example.evil.example", True),
        ("ada@example.org\nBcc: victim@elsewhere.example", None, True),
        ("ada@example.org, victim@elsewhere.example", None, True),
        ("<ada@example.org>", None, True),
        ("", None, True),
        (None, None, True),
    ],
)
def test_members_and_allowed_domains_get_mail(candidate: str | None, address: str | None, refused: bool):
    recipient = recipient_of(candidate, MEMBERS, {"corp.example"}, {"bob@example.org"}.__contains__)
    assert (recipient.address, recipient.refusal is not None) == (address, refused)
