from __future__ import annotations

import logging
import queue
import socket
from collections.abc import Iterator
from email.message import Message

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MessageHandler

from api import email_to
from ci_daemon.mail.settings import MailSettings
from ci_daemon.mail.smtp import SmtpMailer


class Inbox(MessageHandler):
    """A mail server's handler that keeps the messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: queue.Queue[Message] = queue.Queue()

    def handle_message(self, message: Message) -> None:
        self.messages.put(message)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def port(inbox: Inbox) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    server = Controller(inbox, hostname="127.0.0.1", port=port)
    server.start()
    yield port
    server.stop()


def test_messages_reach_a_mail_server(port: int, inbox: Inbox):
    settings = MailSettings("127.0.0.1", port, "none", sender="ci@example.org")
    mailer = SmtpMailer(settings)
    mailer.send(email_to("bob@example.org", "Invite to ada", "Grüße"))
    arrived = inbox.messages.get(timeout=30)

    assert (arrived["From"], arrived["To"], arrived["Subject"]) == (
        "ci@example.org",
        "bob@example.org",
        "Invite to ada",
    )
    body = arrived.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert body.decode().strip() == "Grüße"
    mailer.close()


def test_closing_sends_the_queued_messages(port: int, inbox: Inbox):
    mailer = SmtpMailer(MailSettings("127.0.0.1", port, "none"))
    for number in range(5):
        mailer.send(email_to("bob@example.org", f"message {number}", ""))
    mailer.close()
    assert inbox.messages.qsize() == 5


def test_an_absent_mail_server_costs_only_a_log_line(caplog: pytest.LogCaptureFixture):
    mailer = SmtpMailer(MailSettings("127.0.0.1", 1, "none"))
    with caplog.at_level(logging.ERROR):
        mailer.send(email_to("bob@example.org", "lost", ""))
        mailer.close()
    assert "e-mail to bob@example.org could not be sent through 127.0.0.1" in caplog.text


def test_an_invalid_sender_is_refused():
    with pytest.raises(ValueError, match="sender must be an address"):
        MailSettings(host="mail.example.org", sender="nobody")
