from __future__ import annotations

import re
from datetime import timedelta

import pytest

from actors.mail import Mails
from storage import Letter, Role, Storage
from tests.clock import ManualClock

URL = "https://ci.example.org"
TOKEN = "t" * 43


@pytest.fixture
def mails(storage: Storage) -> Mails:
    return Mails(storage, URL)


def written(storage: Storage) -> Letter:
    mail = storage.mail.next()
    assert mail is not None
    letter = storage.mail.letter(mail)
    assert letter is not None
    return letter


def links(html: str) -> list[str]:
    return re.findall(r'href="([^"]*)"', html)


def test_the_verification_leads_to_its_page(storage: Storage, mails: Mails, clock: ManualClock):
    mails.verification("ada@example.org", "Ada", TOKEN, clock.now() + timedelta(days=1))
    letter = written(storage)
    assert letter.subject == "Confirm your e-mail address"
    assert f"\n    {URL}/login/verify#{TOKEN}\n" in letter.text
    assert links(letter.html) == [f"{URL}/login/verify#{TOKEN}"]
    assert "Hello Ada," in letter.text
    assert "Hello Ada," in letter.html
    assert "until 2026-01-03 03:04 UTC" in letter.text


def test_the_magic_link_leads_to_its_page(storage: Storage, mails: Mails, clock: ManualClock):
    mails.magic_link("ada@example.org", "Ada", TOKEN, clock.now() + timedelta(minutes=15))
    letter = written(storage)
    assert f"\n    {URL}/login/recover#{TOKEN}\n" in letter.text
    assert links(letter.html) == [f"{URL}/login/recover#{TOKEN}"]


def test_an_address_without_account_gets_no_link(storage: Storage, mails: Mails, clock: ManualClock):
    mails.no_account("ada@example.org", clock.now() + timedelta(days=1))
    letter = written(storage)
    assert "no account" in letter.text
    assert links(letter.html) == []


@pytest.mark.parametrize(
    "name",
    [
        "Claim your prize at https://evil.example",
        "visit evil.example now",
        "//evil.example",
        "eve@evil.example",
        "mailto:eve",
        "evil\u2024example\\",
    ],
)
def test_a_name_that_may_become_a_link_is_left_out(storage: Storage, mails: Mails, clock: ManualClock, name: str):
    mails.verification("ada@example.org", name, TOKEN, clock.now())
    letter = written(storage)
    assert "evil" not in letter.text + letter.html
    assert "eve" not in letter.text


def test_names_add_no_lines_headers_or_html(storage: Storage, mails: Mails, clock: ManualClock):
    name = "A\r\nBcc: x\n\n<script>\u202e\u2028\x1b[31m"
    mails.magic_link("ada@example.org", name, TOKEN, clock.now())
    letter = written(storage)
    assert "Hello A Bcc: x <script> [31m," in letter.text
    assert "\n" not in letter.subject
    assert "<script" not in letter.html
    assert "\nBcc" not in letter.text
    assert not {"\u202e", "\u2028", "\x1b", "\r"} & set(letter.text + letter.html)


def test_markup_in_a_name_is_text(storage: Storage, mails: Mails, clock: ManualClock):
    mails.magic_link("ada@example.org", "<b>Ada</b> & Eve", TOKEN, clock.now())
    assert "Hello," in written(storage).html  # a slash may be a link's
    storage.mail.sent(storage.mail.next())
    mails.magic_link("ada@example.org", "<b>Ada & Eve", TOKEN, clock.now())
    assert "Hello &lt;b&gt;Ada &amp; Eve," in written(storage).html
    assert "Hello <b>Ada & Eve," in written(storage).text


def test_the_invite_names_inviter_and_organization(storage: Storage, mails: Mails, clock: ManualClock):
    mails.invite("bob@example.org", "ada@example.org", "acme", Role.ADMIN, TOKEN, clock.now() + timedelta(days=7))
    letter = written(storage)
    assert letter.subject == "Invite to acme"
    assert "ada@example.org invites you to the organization acme" in letter.text
    assert links(letter.html) == [f"{URL}/invites#{TOKEN}"]


def test_a_stranger_gets_three_mails_of_a_kind(
    storage: Storage, mails: Mails, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    for _ in range(8):
        mails.verification("ada@example.org", "Ada", TOKEN, clock.now() + timedelta(days=1))
    assert storage.mail.totals().waiting == 3
    assert TOKEN not in caplog.text
