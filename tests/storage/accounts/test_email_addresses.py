from __future__ import annotations

import pytest

from storage import EmailInvalid, email_address


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
