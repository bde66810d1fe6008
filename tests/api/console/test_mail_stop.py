"""The link in a mail about a build that ends such mail."""

from __future__ import annotations

import re

import pytest

from actors.mail import Mails
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, World

CARL = "carl@corp.example"


def stop_link(world: World, to: str = CARL) -> str:
    """Return the path and query of the link in a mail."""
    mails = Mails(world.storage, "https://ci.example.org")
    assert mails.build(to, mails.build_letter(to, "It failed", "", (), "", (), "https://ci.example.org"))
    mail = world.storage.mail.listed(1)[0]
    letter = world.storage.mail.letter(mail)
    assert letter is not None
    assert letter.stop_link is not None
    assert letter.stop_link in letter.text
    assert letter.stop_link in letter.html
    return letter.stop_link.removeprefix("https://ci.example.org")


def test_a_reader_without_an_account_gets_no_more_mail(world: World):
    """To open the link is not enough: programs that look for malware do that."""
    path, opt_outs = stop_link(world), world.storage.mail_opt_outs
    shown = world.anonymous.simulate_get(path)
    assert CARL in shown.text
    assert not opt_outs.has(CARL)
    action = re.search(r'action="([^"]+)"', main_of(shown))
    assert action is not None
    assert action[1].endswith(path)
    stopped = world.anonymous.simulate_post(path, body="List-Unsubscribe=One-Click")
    assert (stopped.status_code, opt_outs.has(CARL)) == (200, True)
    assert "no more mail" in stopped.text


@pytest.mark.parametrize("change", ["?token=", "", "?token=abc.def", "?token=ImFkYUBleGFtcGxlLm9yZyI.AAAA"])
def test_a_token_that_nobody_was_sent_stops_nothing(world: World, ada: Account, change: str):
    for method in ("GET", "POST"):
        answered = world.anonymous.simulate_request(method, f"/account/mail/stop{change}")
        assert answered.status_code == 400
    assert not world.storage.mail_opt_outs.has(ada.email)


def test_an_account_turns_its_mail_on_again(world: World, ada: Account):
    world.anonymous.simulate_post(stop_link(world, ada.email))
    browser = Browser.of(ada)
    assert 'name="builds" checked' not in browser.get("/account").text
    browser.send("/account", "account/mail", builds="on")
    assert not world.storage.mail_opt_outs.has(ada.email)
