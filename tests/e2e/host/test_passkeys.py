"""Passkeys in a real browser, against the real daemon and a mail server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from storage import Storage, SystemClock
from tests.e2e.browser import Person
from tests.e2e.daemon import Daemon
from tests.mail_server import MailServer, mail_server

MAIL_SECONDS = 20.0


@pytest.fixture(scope="module")
def mailbox() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture(scope="module")
def settings(mailbox: MailServer) -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_IDENTITY_SIGNUP": "open",
        "CI_DAEMON_MAIL_HOST": "127.0.0.1",
        "CI_DAEMON_MAIL_PORT": str(mailbox.port),
        "CI_DAEMON_MAIL_SECURITY": "none",
    }


@pytest.fixture(scope="module")
def url(daemon: Daemon) -> str:
    """The address of the daemon as the browser has it: passkeys need a name."""
    daemon.add_user("first@example.org", 0)
    return daemon.url.replace("127.0.0.1", "localhost")


def link(mailbox: MailServer, to: str, page: str) -> str:
    """Return the token of the next mail's link."""
    message = mailbox.messages.get(timeout=MAIL_SECONDS)
    assert message["To"] == to
    body = message.get_body(("plain",))
    assert body is not None
    found = re.search(rf"/login/{page}#(\S+)", body.get_content())
    assert found is not None, body.get_content()
    return found[1]


def as_session(url: str, token: str, method: str, path: str) -> httpx.Response:
    return httpx.request(method, f"{url}/api/v0/user{path}", headers={"Authorization": f"Bearer {token}"}, timeout=30)


def code(outcome: dict[str, Any]) -> tuple[int, str]:
    return outcome["status"], outcome["body"]["error"]["code"]


def signed_up(person: Person, mailbox: MailServer, email: str) -> dict[str, Any]:
    """Sign up by mail; return the body of the answer."""
    assert person.do("begin", "passkey/signup", {"email": email, "name": "Eve"})["status"] == 204
    outcome = person.do("signUp", {"verification_token": link(mailbox, email, "verify")})
    assert outcome["status"] == 200, outcome
    body: dict[str, Any] = outcome["body"]
    return body


def test_a_person_signs_up_signs_in_and_recovers(daemon: Daemon, browser: Browser, url: str, mailbox: MailServer):
    person = Person.at(browser, url)
    answered = signed_up(person, mailbox, "eve@example.org")
    assert answered["user"]["email"] == "eve@example.org"
    (passkey,) = person.passkeys()
    assert (passkey["rpId"], passkey["isResidentCredential"]) == ("localhost", True)

    first = person.do("login")["body"]["token"]
    (entry,) = daemon.json("audit", "--action", "passkeyLoginFinalize")
    assert entry["actor"] == "eve@example.org"
    assert person.do("register", [first, "again"]) == {"refused": "InvalidStateError"}

    phone = Person.at(browser, url, transport="usb")
    added = phone.do("register", [first, "Phone"])
    assert (added["status"], added["body"]["nickname"]) == (200, "Phone")
    listed = as_session(url, first, "GET", "/passkeys").json()["passkeys"]
    assert [each["nickname"] for each in listed] == ["Passkey", "Phone"]
    second = phone.do("login")["body"]["token"]
    assert as_session(url, second, "DELETE", f"/passkeys/{listed[1]['uuid']}").status_code == 204
    assert code(phone.do("login")) == (400, "passkey_unknown_credential")

    person.forget()
    assert person.do("begin", "recover", {"email": "eve@example.org"})["status"] == 204
    token = link(mailbox, "eve@example.org", "recover")
    recovered = person.do("recover", {"magic_link_token": token})
    assert recovered["status"] == 200, recovered
    assert as_session(url, first, "GET", "").status_code == 401, "recovery ends other sessions"
    session = person.do("login")["body"]["token"]
    assert code(person.do("recover", {"magic_link_token": token})) == (400, "passkey_token_invalid")

    for passkey in as_session(url, session, "GET", "/passkeys").json()["passkeys"]:
        assert as_session(url, session, "DELETE", f"/passkeys/{passkey['uuid']}").status_code == 204
    assert as_session(url, session, "GET", "").status_code == 200, "the session that deletes the last passkey goes on"
    assert code(person.do("login")) == (400, "passkey_unknown_credential")


def test_the_owner_signs_up_by_a_link_of_the_host(daemon: Daemon, browser: Browser, url: str):
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        token = storage.sign_in_links.owner()
    person = Person.at(browser, url)
    fields = {"verification_token": token, "email": "olga@example.org", "name": "Olga"}
    outcome = person.do("signUp", fields)
    assert (outcome["status"], outcome["body"]["user"]["email"]) == (200, "olga@example.org")
    assert code(person.do("signUp", fields)) == (400, "passkey_token_invalid")
    assert person.do("login")["status"] == 200


def test_a_copied_passkey_is_noticed(browser: Browser, url: str, mailbox: MailServer):
    person = Person.at(browser, url)
    signed_up(person, mailbox, "copied@example.org")
    (copied,) = person.passkeys()
    for _ in range(3):
        assert person.do("login")["status"] == 200
    thief = Person.at(browser, url)
    thief.plug(copied)
    assert code(thief.do("login")) == (400, "passkey_assertion_failed")
    assert person.do("login")["status"] == 200


def test_an_unverified_user_is_refused_by_the_browser(browser: Browser, url: str, mailbox: MailServer):
    person = Person.at(browser, url)
    signed_up(person, mailbox, "unverified@example.org")
    person.verify(succeeds=False)
    assert person.do("login") == {"refused": "NotAllowedError"}


@pytest.mark.parametrize("option", ["hasResidentKey", "hasUserVerification"])
def test_an_authenticator_that_cannot_do_it_is_refused(browser: Browser, url: str, mailbox: MailServer, option: str):
    person = Person.at(browser, url, **{option: False, "transport": "usb"})
    email = f"{option.lower()}@example.org"
    person.do("begin", "passkey/signup", {"email": email, "name": "Eve"})
    outcome = person.do("signUp", {"verification_token": link(mailbox, email, "verify")})
    assert outcome == {"refused": "NotAllowedError"}


def test_on_another_page_the_browser_refuses(daemon: Daemon, browser: Browser, url: str):
    elsewhere = Person.at(browser, daemon.url)
    assert elsewhere.do("login") == {"refused": "SecurityError"}
