"""Mails that wait are sent to a real server, which takes them, refuses them, or breaks."""

from __future__ import annotations

import base64
import logging
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from actors.mail import Mails, MailSettings
from actors.mail.sender import expire_mails
from actors.mail.sending import Sending
from actors.metrics import EngineMetrics
from storage import DatabaseUnavailable, Mail, Role, Storage
from tests.clock import ManualClock
from tests.mail_server import DROP, HANG, MailServer, certificate, mail_server, password_check, rude_server
from tests.state import run_sql

TOKEN = "Sm9obi1Eb2UtaXMtbm90LWhlcmUtdG9kYXkhISEhISE"
SENDER = "ci@example.org"


def settings_of(server: MailServer, **changed: object) -> MailSettings:
    plain = {"host": "127.0.0.1", "port": server.port, "security": "none", "sender": SENDER}
    return MailSettings(**{**plain, **changed})  # type: ignore[arg-type]


def sending(storage: Storage, clock: ManualClock, settings: MailSettings) -> Sending:
    metrics = EngineMetrics()
    return Sending(storage, settings, clock, metrics, lambda: expire_mails(storage, metrics))


def write(storage: Storage, *recipients: str) -> None:
    mails = Mails(storage, "https://ci.example.org")
    for recipient in recipients:
        mails.magic_link(recipient, "Grace", TOKEN, ManualClock().now() + timedelta(days=9))


def waiting(storage: Storage) -> list[Mail]:
    return [each for each in storage.mail.listed(10_000) if each.next_attempt_at is not None]


def test_a_mail_reaches_the_server(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, "bob@example.org")
    assert sending(storage, clock, settings_of(server)).run()
    message = server.messages.get(timeout=60)
    assert (message["From"], message["To"]) == (f"ci-daemon <{SENDER}>", "bob@example.org")
    assert (message["Subject"], message["Auto-Submitted"]) == ("Sign in", "auto-generated")
    assert message["Date"].datetime == clock.now().replace(microsecond=0)
    text, html = message.iter_parts()
    assert f"https://ci.example.org/login/recover#{TOKEN}" in text.get_content()
    assert html.get_content_type() == "text/html"
    assert storage.mail.totals().waiting == 0


def test_a_link_to_end_mail_is_in_one_piece(storage: Storage, clock: ManualClock, server: MailServer):
    """Encoded and broken, as other long headers are, no mail program would offer it."""
    mails, to = Mails(storage, "https://ci.example.org"), "ada@example.org"
    assert mails.build(to, mails.build_letter(to, "It failed", "", (), "", (), "https://ci.example.org"))
    assert sending(storage, clock, settings_of(server)).run()
    headers = dict(server.messages.get(timeout=60).raw_items())
    link = f"https://ci.example.org/account/mail/stop?token={storage.mail_opt_outs.token('ada@example.org')}"
    assert headers["List-Unsubscribe"] == f"<{link}>"
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_one_connection_takes_many_mails(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, *(f"u{number}@example.org" for number in range(20)))
    sending(storage, clock, settings_of(server)).run()
    assert (len(server.recipients), server.connections) == (20, 1)


@pytest.mark.parametrize("phase", ["RCPT", "DATA"])
def test_a_permanent_refusal_gives_one_mail_up(storage: Storage, clock: ManualClock, server: MailServer, phase: str):
    write(storage, "gone@example.org", "bob@example.org")
    server.faults[phase, "gone@example.org"] = "550 5.1.1 no such mailbox"
    assert sending(storage, clock, settings_of(server)).run()
    assert (server.recipients, server.connections) == (["bob@example.org"], 1)
    (given_up,) = storage.mail.listed(10)
    assert (given_up.recipient, given_up.given_up_at) == ("gone@example.org", clock.now())
    assert given_up.last_error == "the server answered 550 5.1.1 no such mailbox"


@pytest.mark.parametrize(
    ("phase", "answer"), [("MAIL", "550 who are you"), ("RCPT", "450 greylisted"), ("DATA", "451 no space")]
)
def test_a_temporary_refusal_is_tried_again(
    storage: Storage, clock: ManualClock, server: MailServer, phase: str, answer: str
):
    write(storage, "bob@example.org")
    server.faults[phase] = answer
    assert sending(storage, clock, settings_of(server)).run()
    (mail,) = waiting(storage)
    assert (mail.attempts, mail.last_error) == (1, f"the server answered {answer}")
    server.faults.clear()
    assert sending(storage, clock, settings_of(server)).run()
    assert server.recipients == []
    clock.advance(10)
    assert sending(storage, clock, settings_of(server)).run()
    assert server.recipients == ["bob@example.org"]


@pytest.mark.parametrize("phase", ["MAIL", "RCPT", "DATA"])
def test_a_lost_connection_costs_only_its_mail_time(
    storage: Storage, clock: ManualClock, server: MailServer, phase: str
):
    """MAIL names no recipient: there the connection is lost for both mails."""
    write(storage, "ada@example.org", "bob@example.org")
    if phase == "MAIL":
        server.faults["MAIL"] = DROP
    else:
        server.faults[phase, "ada@example.org"] = DROP
    assert sending(storage, clock, settings_of(server)).run()
    assert server.recipients == ([] if phase == "MAIL" else ["bob@example.org"])
    server.faults.clear()
    clock.advance(10)
    sending(storage, clock, settings_of(server)).run()
    assert sorted(server.recipients) == ["ada@example.org", "bob@example.org"]


def test_a_server_that_drops_every_mail_counts_as_failed(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, *(f"u{number}@example.org" for number in range(20)))
    server.faults["DATA"] = DROP
    assert not sending(storage, clock, settings_of(server)).run()
    assert server.connections == 3
    assert not storage.mail.is_due()


@pytest.mark.parametrize("says", [b"554 go away\r\n", b"421 too busy\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_server_that_greets_nobody_counts_as_failed(storage: Storage, clock: ManualClock, says: bytes):
    write(storage, "ada@example.org", "bob@example.org")
    with rude_server(says) as port:
        assert not sending(storage, clock, MailSettings("127.0.0.1", port, "none", sender=SENDER)).run()
    assert [each.attempts for each in waiting(storage)] == [1, 1]


def test_a_thousand_mails_wait_for_a_server_that_is_away(
    storage: Storage, clock: ManualClock, caplog: pytest.LogCaptureFixture, closed_port: int
):
    with storage.transaction():
        write(storage, *(f"u{number}@example.org" for number in range(1000)))
    away = MailSettings("127.0.0.1", closed_port, "none", sender=SENDER)
    with caplog.at_level(logging.WARNING):
        assert not sending(storage, clock, away).run()
    assert len(caplog.records) == 1
    assert storage.mail.totals().waiting == 1000
    clock.advance(10)
    with mail_server() as back:
        sending(storage, clock, settings_of(back)).run()
        assert back.recipients == [f"u{number}@example.org" for number in range(1000)]
        assert back.connections == 1


def test_starttls_encrypts_and_logs_in(
    storage: Storage, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    context, trusted = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    write(storage, "bob@example.org")
    with mail_server(
        tls_context=context, require_starttls=True, authenticator=password_check("ci", "hush"), auth_required=True
    ) as server:
        settings = settings_of(server, host="localhost", security="starttls", user="ci", password="hush")
        assert sending(storage, clock, settings).run()
        assert server.recipients == ["bob@example.org"]


def test_tls_encrypts_from_the_start(
    storage: Storage, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    context, trusted = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    write(storage, "bob@example.org")
    with mail_server(
        ssl_context=context, authenticator=password_check("ci", "hush"), auth_require_tls=False, auth_required=True
    ) as server:
        settings = settings_of(server, host="localhost", security="tls", user="ci", password="hush")
        assert sending(storage, clock, settings).run()
        assert server.recipients == ["bob@example.org"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_an_unknown_certificate_gets_no_mail(storage: Storage, clock: ManualClock, tmp_path: Path, security: str):
    context, _ = certificate(tmp_path)
    write(storage, "bob@example.org")
    options = {"tls_context" if security == "starttls" else "ssl_context": context}
    with mail_server(**options) as server:
        assert not sending(storage, clock, settings_of(server, host="localhost", security=security)).run()
        assert server.recipients == []
    assert "its certificate is not valid" in str(waiting(storage)[0].last_error)


def test_a_certificate_of_another_host_gets_no_mail(
    storage: Storage, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    context, trusted = certificate(tmp_path, "mail.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    write(storage, "bob@example.org")
    with mail_server(tls_context=context) as server:
        assert not sending(storage, clock, settings_of(server, host="localhost", security="starttls")).run()
        assert server.recipients == []
    assert "Hostname mismatch" in str(waiting(storage)[0].last_error)


def test_without_starttls_neither_mail_nor_password_is_sent(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, "bob@example.org")
    assert not sending(storage, clock, settings_of(server, security="starttls", user="ci", password="hush")).run()
    assert server.recipients == []
    assert "does not encrypt the connection: STARTTLS extension not supported" in str(waiting(storage)[0].last_error)


def test_a_refused_log_in_does_not_tell_the_password(
    storage: Storage, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    write(storage, "bob@example.org")
    with mail_server(authenticator=password_check("ci", "other"), auth_require_tls=False, auth_required=True) as server:
        assert not sending(storage, clock, settings_of(server, user="ci", password="hush")).run()
    (mail,) = waiting(storage)
    assert "does not let ci log in: the server answered 535" in str(mail.last_error)
    assert "hush" not in caplog.text + str(mail.last_error)


def test_a_server_that_repeats_the_mail_spreads_no_token(
    storage: Storage, clock: ManualClock, server: MailServer, caplog: pytest.LogCaptureFixture
):
    write(storage, "bob@example.org")
    encoded = base64.b64encode(TOKEN.encode()).decode()
    server.faults["DATA"] = f"554 spam: https://ci.example.org/login/recover#{TOKEN} {encoded}"
    sending(storage, clock, settings_of(server)).run()
    (mail,) = storage.mail.listed(10)
    told = caplog.text + str(mail.last_error)
    assert TOKEN not in told
    assert encoded not in told
    assert "554 spam" in str(mail.last_error)


def test_an_expired_link_is_not_sent(storage: Storage, clock: ManualClock, server: MailServer):
    mails = Mails(storage, "https://ci.example.org")
    mails.magic_link("bob@example.org", "Bob", TOKEN, clock.now() + timedelta(minutes=15))
    mails.invite("bob@example.org", "ada@example.org", "acme", Role.MEMBER, TOKEN, clock.now() + timedelta(days=7))
    clock.advance(minutes=15)
    assert sending(storage, clock, settings_of(server)).run()
    assert [server.messages.get(timeout=60)["Subject"]] == ["Invite to acme"]
    (expired,) = storage.mail.listed(10)
    assert expired.kind == "magic_link"


def test_a_silent_server_is_cut_off_in_time(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, "ada@example.org", "bob@example.org")
    server.faults["RCPT", "ada@example.org"] = HANG
    work = sending(storage, clock, settings_of(server))
    thread = threading.Thread(target=work.run)
    thread.start()
    assert server.hanging.wait(30)
    work.end_if_overdue()
    clock.advance(121)
    work.end_if_overdue()
    thread.join(30)
    assert not thread.is_alive()
    assert server.recipients == ["bob@example.org"]
    assert [each.recipient for each in waiting(storage)] == ["ada@example.org"]


def test_a_stop_lets_the_mail_under_way_go_out(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, "ada@example.org", "bob@example.org")
    work = sending(storage, clock, settings_of(server))
    stop = threading.Thread(target=work.stop, args=(30.0,))
    server.before_answer = stop.start
    assert work.run()
    assert server.recipients == ["ada@example.org"]
    stop.join(30)
    assert [(each.recipient, each.attempts) for each in waiting(storage)] == [("bob@example.org", 0)]


def test_a_stop_ends_a_mail_that_takes_too_long(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, "ada@example.org")
    server.faults["RCPT"] = HANG
    work = sending(storage, clock, settings_of(server))
    thread = threading.Thread(target=work.run)
    thread.start()
    assert server.hanging.wait(30)
    work.stop(0.0)
    thread.join(30)
    assert not thread.is_alive()
    assert [each.attempts for each in waiting(storage)] == [0]


def test_what_was_sent_is_not_sent_again_when_the_disk_is_full(
    storage: Storage, clock: ManualClock, server: MailServer, monkeypatch: pytest.MonkeyPatch
):
    write(storage, "ada@example.org")
    note, failures = storage.mail.sent, iter([DatabaseUnavailable("the disk is full")])

    def sent(mail: Mail) -> None:
        for failure in failures:
            raise failure
        note(mail)

    monkeypatch.setattr("actors.mail.sending._RETRY_SECONDS", 0.0)
    monkeypatch.setattr(storage.mail, "sent", sent)
    assert sending(storage, clock, settings_of(server)).run()
    assert server.recipients == ["ada@example.org"]
    assert waiting(storage) == []


def test_a_mail_that_cannot_be_opened_blocks_no_other(storage: Storage, clock: ManualClock, server: MailServer):
    write(storage, "ada@example.org", "bob@example.org")
    run_sql(storage.directory, "UPDATE mails SET content = x'00' WHERE recipient = 'ada@example.org'")
    assert sending(storage, clock, settings_of(server)).run()
    assert server.recipients == ["bob@example.org"]


@pytest.mark.parametrize("host", ["mail.example.org", "10.0.0.1", ""])
def test_a_password_never_goes_unencrypted_to_another_host(host: str):
    with pytest.raises(ValueError, match='security must be "starttls" or "tls"'):
        MailSettings(host, security="none", user="ci", password="hush")


def test_an_invalid_sender_is_refused():
    with pytest.raises(ValueError, match="sender must be an address"):
        MailSettings(host="mail.example.org", sender="nobody")
