"""The actor that sends: when it begins, when it pauses, and how it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pykka
import pytest

from actors.addresses import Address
from actors.mail import Mails, MailSettings
from actors.mail.sender import MailSender
from actors.messages import MailSenderMessage, PollStorage
from actors.parts import Parts
from actors.settings import JobSettings, LiveSettings, PoolSettings
from actors.supervision import doing, spawn
from storage import Storage
from tests.actors.conftest import settings_with
from tests.clock import ManualClock
from tests.mail_server import DROP, HANG, MailServer
from tests.waiting import until

Start = Callable[[MailSettings], tuple[Address[MailSenderMessage], LiveSettings]]


@pytest.fixture
def start(storage: Storage, clock: ManualClock) -> Iterator[Start]:
    started = []

    def start(mail: MailSettings) -> tuple[Address[MailSenderMessage], LiveSettings]:
        live = LiveSettings(replace(settings_with(PoolSettings(), JobSettings()), mail=mail))
        parts = Parts(storage=storage, clock=clock, live_settings=live)
        parts.timer.start()
        sender: Address[MailSenderMessage] = spawn(MailSender, parts)
        started.append((sender, parts.timer))
        return sender, live

    yield start
    for sender, timer in started:
        sender.stop()
        timer.stop()


def plain(server: MailServer) -> MailSettings:
    return MailSettings("127.0.0.1", server.port, "none", sender="ci@example.org")


def write(storage: Storage, *names: str) -> None:
    for name in names:
        Mails(storage, "https://ci.example.org").no_account(f"{name}@example.org", datetime(2100, 1, 1, tzinfo=UTC))


def attempts(storage: Storage) -> list[int]:
    return [each.attempts for each in storage.mail.listed(10)]


def test_it_sends_once_a_server_is_configured(storage: Storage, server: MailServer, start: Start):
    sender, live = start(MailSettings())
    write(storage, "ada")
    sender.ask(PollStorage())
    assert storage.mail.is_due()
    live.now = replace(live.now, mail=plain(server))
    sender.ask(PollStorage())
    assert server.messages.get(timeout=30)["To"] == "ada@example.org"
    until(lambda: storage.mail.totals().waiting == 0, "the note that it was sent")


def test_expired_links_go_though_no_server_is_configured(storage: Storage, clock: ManualClock, start: Start):
    sender, _ = start(MailSettings())
    Mails(storage, "https://ci.example.org").magic_link("ada@example.org", "Ada", "t" * 43, clock.now())
    sender.ask(PollStorage())
    assert storage.mail.totals().waiting == 0


def test_a_failed_server_is_left_alone_for_a_moment(
    storage: Storage, clock: ManualClock, start: Start, closed_port: int
):
    """A new mail is due at once; still the server is not asked at each mail."""
    sender, _ = start(MailSettings("127.0.0.1", closed_port, "none", sender="ci@example.org"))
    write(storage, "ada")
    sender.ask(PollStorage())
    (actor,) = pykka.ActorRegistry.get_by_class(MailSender)
    until(lambda: doing(actor) == "no worker is under way", "the attempt's end")
    sender.ask(PollStorage())  # by then it has heard of the end, with which the server's pause begins
    assert attempts(storage) == [1]
    write(storage, "bob")
    clock.advance(9)
    for _ in range(5):
        sender.ask(PollStorage())
    assert attempts(storage) == [1, 0]
    clock.advance(2)

    def tried_again() -> bool:
        sender.ask(PollStorage())
        return attempts(storage) == [2, 1]

    until(tried_again, "another attempt")


def test_a_silent_server_is_cut_by_the_next_look(
    storage: Storage, clock: ManualClock, server: MailServer, start: Start
):
    write(storage, "ada")
    server.faults["RCPT"] = HANG
    sender, _ = start(plain(server))
    sender.ask(PollStorage())
    assert server.hanging.wait(30)
    clock.advance(121)
    sender.ask(PollStorage())
    until(lambda: attempts(storage) == [1], "the end of the attempt", seconds=20)  # the socket's own end is at 30 s


def test_it_stops_while_the_server_is_silent(
    storage: Storage, server: MailServer, start: Start, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("actors.mail.sender._STOP_SECONDS", 0.0)
    write(storage, "ada")
    server.faults["RCPT"] = HANG
    sender, _ = start(plain(server))
    sender.ask(PollStorage())
    assert server.hanging.wait(30)
    sender.stop()
    assert attempts(storage) == [0]
    server.faults.clear()
    successor, _ = start(plain(server))
    successor.ask(PollStorage())
    assert server.messages.get(timeout=30)["To"] == "ada@example.org"


def test_a_lost_connection_ends_no_round(storage: Storage, server: MailServer, start: Start):
    write(storage, "ada", "bob")
    server.faults["RCPT", "ada@example.org"] = DROP
    sender, _ = start(plain(server))
    sender.ask(PollStorage())
    assert server.messages.get(timeout=30)["To"] == "bob@example.org"
