"""The host owner's commands for e-mail and for links to sign in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from actors.mail import Mails
from storage import SignInLinkKind, Storage, SystemClock
from tests.ci_daemon.conftest import Run, RunJson
from tests.mail_server import DROP, MailServer, mail_server

LATER = datetime(2100, 1, 1, tzinfo=UTC)
TOKEN = "Sm9obi1Eb2UtaXMtbm90LWhlcmUtdG9kYXkhISEhISE"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as server:
        monkeypatch.setenv("CI_DAEMON_MAIL_HOST", "127.0.0.1")
        monkeypatch.setenv("CI_DAEMON_MAIL_PORT", str(server.port))
        monkeypatch.setenv("CI_DAEMON_MAIL_SECURITY", "none")
        yield server


def test_a_test_mail_is_sent_at_once(run: Run, server: MailServer, capsys: pytest.CaptureFixture[str]):
    assert run("mail", "test", "ada@example.org") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"ok    connected to 127.0.0.1:{server.port}",
        "ok    the server accepts ada@example.org",
        "ok    the server accepted the mail",
        "sent to ada@example.org",
    ]
    assert server.messages.get(timeout=10)["Subject"] == "Test of ci-daemon's e-mail"


@pytest.mark.parametrize(
    ("phase", "fault", "error"),
    [
        ("RCPT", "550 no such mailbox", "the server answered 550 no such mailbox"),
        ("MAIL", "530 log in first", "the server answered 530 log in first"),
        ("DATA", DROP, "Connection unexpectedly closed"),
    ],
)
def test_a_test_mail_that_fails_says_where(
    run: Run, server: MailServer, capsys: pytest.CaptureFixture[str], phase: str, fault: str, error: str
):
    server.faults[phase] = fault
    assert run("mail", "test", "ada@example.org") == 1
    *steps, failure = capsys.readouterr().out.splitlines()
    assert steps[0].startswith("ok    connected to")
    assert failure.startswith(f"FAIL  {error}")
    assert run("mail", "test", "ada@example.org", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["sent"], len(answer["steps"])) == (False, len(steps))


@pytest.mark.parametrize("words", [("test", "ada@example.org"), ("retry",)])
def test_without_a_mail_server_it_says_where_one_is_needed(
    run: Run, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
):
    assert run("mail", *words) == 1
    told = capsys.readouterr().err
    assert "set host in the section [mail]" in told
    assert "ci-daemon user link EMAIL" in told


def test_the_queue_shows_mails_without_content(
    run: Run, run_json: RunJson, storage: Storage, capsys: pytest.CaptureFixture[str]
):
    mails, until = Mails(storage, "https://ci.example.org"), SystemClock().now() + timedelta(days=1)
    mails.magic_link("ada@example.org", "Ada", TOKEN, until)
    mails.verification("bob@example.org", "Bob", TOKEN, until)
    first = storage.mail.next()
    assert first is not None
    storage.mail.refuse(first, "the server answered 550 no such mailbox")

    given_up, waiting = run_json("mail", "queue")
    assert (given_up["to"], given_up["kind"], given_up["state"]) == ("ada@example.org", "magic_link", "given up")
    assert (given_up["attempts"], given_up["last_error"]) == (1, "the server answered 550 no such mailbox")
    assert (waiting["to"], waiting["state"], waiting["attempts"]) == ("bob@example.org", "waiting", 0)
    assert run("mail", "queue") == 0
    told = capsys.readouterr().out + str(given_up) + str(waiting)
    assert "bob@example.org" in told
    assert TOKEN not in told
    assert "Bob" not in told


def test_mails_that_wait_can_be_tried_at_once(run_json: RunJson, storage: Storage, server: MailServer):
    Mails(storage, "https://ci.example.org").no_account("ada@example.org", LATER)
    storage.mail.defer_all("no route")
    assert not storage.mail.is_due()
    assert run_json("mail", "retry") == {"retried": 1}
    assert storage.mail.is_due()


def test_where_no_mail_waits_none_is_tried(run: Run, server: MailServer, capsys: pytest.CaptureFixture[str]):
    assert run("mail", "retry") == 0
    assert capsys.readouterr().out == "no mail waits\n"


def test_status_tells_of_mail_that_waits_or_failed(
    run: Run, storage: Storage, server: MailServer, capsys: pytest.CaptureFixture[str]
):
    run("status")
    assert re.search(r"mail +no mail waits\n", capsys.readouterr().out)
    mails = Mails(storage, "https://ci.example.org")
    for name in ("ada", "bob"):
        mails.no_account(f"{name}@example.org", LATER)
    storage.mail.defer_all("no route")
    given_up = storage.mail.listed(1)[0]
    storage.mail.refuse(given_up, "550 no")
    run("status")
    screen = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "1 mail waits, 1 of them after a failed attempt; 1 was given up in the last 24 hours" in screen


def test_status_and_doctor_say_that_no_server_is_configured(run: Run, capsys: pytest.CaptureFixture[str]):
    for command in ("status", "doctor"):
        run(command)
        assert "no mail server is configured ([mail])" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_the_doctor_tries_the_mail_server(run: Run, server: MailServer, capsys: pytest.CaptureFixture[str]):
    run("doctor")
    assert f"connected to 127.0.0.1:{server.port}" in capsys.readouterr().out
    server.faults["EHLO"] = DROP
    run("doctor")
    assert "does not answer the greeting" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_a_link_signs_its_user_in_and_is_not_in_the_audit(
    run: Run, storage: Storage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CI_DAEMON_HTTP_BASE_URL", "https://ci.example.org")
    user = storage.users.create("ada@example.org", "Ada")
    assert run("user", "link", "ada@example.org") == 0
    page, _, token = capsys.readouterr().out.strip().partition("#")
    assert page == "https://ci.example.org/login/recover"
    link = storage.sign_in_links.read(SignInLinkKind.MAGIC_LINK, token)
    assert link is not None
    assert link.user_id == user.id
    (entry,) = storage.audit.page(10, None).rows
    assert (entry.action, entry.subject) == ("createUserLink", "ada@example.org")
    assert token not in str(entry)


def test_the_owners_link_names_nobody(run: Run, storage: Storage, capsys: pytest.CaptureFixture[str]):
    assert run("user", "link", "--owner") == 0
    page, _, token = capsys.readouterr().out.strip().partition("#")
    assert page == "http://localhost:8800/login/owner"
    assert storage.sign_in_links.read(SignInLinkKind.OWNER, token) is not None
    assert token not in str(storage.audit.page(10, None).rows)


@pytest.mark.parametrize("words", [(), ("ada@example.org", "--owner")])
def test_a_link_is_for_a_user_or_for_the_owner(run: Run, words: tuple[str, ...]):
    assert run("user", "link", *words) == 2


def test_a_link_needs_an_account(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("user", "link", "ada@example.org") == 1
    assert "there is no user ada@example.org" in capsys.readouterr().err
