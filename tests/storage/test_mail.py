from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from storage import Letter, Mail, SealBroken, Storage
from tests.clock import ManualClock
from tests.state import run_sql

LETTER = Letter("Sign in", "open https://ci.example.org/login/recover#secret", "<p>secret</p>")
DAY = timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def add(storage: Storage, recipient: str = "ada@example.org", *, kind: str = "invite", most: int = 100) -> bool:
    return storage.mail.add(recipient, kind, LETTER, None, most)


def head(storage: Storage) -> Mail:
    mail = storage.mail.next()
    assert mail is not None
    return mail


def seconds_to_wait(storage: Storage, clock: ManualClock) -> float:
    (mail,) = storage.mail.listed(10)
    assert mail.next_attempt_at is not None
    return (mail.next_attempt_at - clock.now()).total_seconds()


def test_a_mail_is_due_at_once_and_keeps_its_content_sealed(storage: Storage):
    add(storage)
    assert storage.mail.letter(head(storage)) == LETTER
    (row,) = run_sql(storage.directory, "SELECT * FROM mails")
    assert b"secret" not in b"".join(value for value in row if isinstance(value, bytes))
    assert "secret" not in "".join(value for value in row if isinstance(value, str))


def test_a_sealed_content_opens_in_no_other_row(storage: Storage):
    add(storage)
    add(storage, "bob@example.org")
    run_sql(storage.directory, "UPDATE mails SET content = (SELECT content FROM mails WHERE id = 2) WHERE id = 1")
    with pytest.raises(SealBroken):
        storage.mail.letter(head(storage))


def test_what_was_sent_or_given_up_has_no_content(storage: Storage, clock: ManualClock):
    for recipient in ("sent", "refused", "expired"):
        storage.mail.add(f"{recipient}@example.org", "invite", LETTER, clock.now() + DAY, 1)
    sent = head(storage)
    storage.mail.sent(sent)
    refused = head(storage)
    storage.mail.refuse(refused, "550 no such mailbox")
    clock.advance(days=1)
    (expired,) = storage.mail.expire()
    assert [storage.mail.letter(each) for each in (sent, refused, expired)] == [None, None, None]
    assert run_sql(storage.directory, "SELECT COUNT(*) FROM mails WHERE content IS NOT NULL") == [(0,)]
    assert [(each.recipient, each.last_error) for each in storage.mail.listed(10)] == [
        ("refused@example.org", "550 no such mailbox"),
        ("expired@example.org", "it expired before it could be sent"),
    ]


def test_a_mail_is_tried_ever_more_rarely_for_three_days(storage: Storage, clock: ManualClock):
    add(storage)
    began, pauses = clock.now(), []
    while (mail := storage.mail.next()) is not None:
        given_up = storage.mail.defer(mail, "450 try later")
        if given_up:
            break
        pauses.append(seconds_to_wait(storage, clock))
        assert storage.mail.next() is None
        clock.advance(pauses[-1])
    assert pauses[:11] == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert set(pauses[9:]) == {3600}
    assert timedelta(days=3) <= clock.now() - began < timedelta(days=3, hours=1)
    assert storage.mail.totals().given_up == 1


def test_a_mail_older_than_three_days_gets_one_attempt(storage: Storage, clock: ManualClock):
    add(storage)
    clock.advance(days=5)
    mail = head(storage)
    assert storage.mail.defer(mail, "450 try later")[0].uuid == mail.uuid
    assert storage.mail.next() is None


def test_mails_to_one_address_keep_their_order(storage: Storage):
    add(storage, kind="first")
    add(storage, "bob@example.org", kind="other")
    add(storage, kind="second")
    assert head(storage).kind == "first"
    storage.mail.defer(head(storage), "450 try later")
    assert head(storage).kind == "other"
    storage.mail.sent(head(storage))
    assert storage.mail.next() is None


def test_earlier_mails_to_an_address_go_before_a_new_one(storage: Storage, clock: ManualClock):
    add(storage, kind="invite")
    for _ in range(8):
        storage.mail.defer(head(storage), "450 try later")
        clock.advance(seconds_to_wait(storage, clock))
    storage.mail.defer(head(storage), "450 try later")
    add(storage, kind="magic_link")
    assert head(storage).kind == "invite"
    storage.mail.sent(head(storage))
    assert head(storage).kind == "magic_link"


def test_a_failed_server_defers_every_mail_that_is_due(storage: Storage, clock: ManualClock):
    for number in range(20):
        add(storage, f"u{number}@example.org")
    assert storage.mail.defer_all("no route") == []
    assert not storage.mail.is_due()
    assert storage.mail.totals().waiting == storage.mail.totals().deferred == 20
    clock.advance(10)
    assert storage.mail.is_due()


def test_all_that_waits_can_be_tried_at_once(storage: Storage):
    for number in range(3):
        add(storage, f"u{number}@example.org")
    storage.mail.defer_all("no route")
    assert storage.mail.retry() == 3
    assert storage.mail.is_due()


def test_one_address_gets_a_limited_number_of_mails(storage: Storage, clock: ManualClock):
    assert [add(storage, most=2) for _ in range(3)] == [True, True, False]
    assert add(storage, kind="verification", most=2)
    assert add(storage, "bob@example.org", most=2)
    clock.advance(minutes=14, seconds=59)
    assert not add(storage, most=2)
    clock.advance(1)
    assert add(storage, most=2)


def test_an_aborted_transaction_leaves_no_mail(storage: Storage):
    with suppress(ZeroDivisionError), storage.transaction():
        add(storage)
        raise ZeroDivisionError
    assert storage.mail.next() is None


def test_ended_mails_are_forgotten_after_a_week(storage: Storage, clock: ManualClock):
    add(storage)
    storage.mail.refuse(head(storage), "550 no")
    clock.advance(days=8)
    add(storage, "bob@example.org")
    assert [each.recipient for each in storage.mail.listed(10)] == ["bob@example.org"]


def test_closing_an_account_forgets_its_mail(storage: Storage):
    user = storage.users.create("ada@example.org", "Ada")
    add(storage)
    storage.accounts.close(user.id)
    assert storage.mail.next() is None


def test_an_attempt_counts_for_the_mail_that_was_tried(storage: Storage):
    """It was not due itself: a later mail to its address was."""
    add(storage, kind="first")
    storage.mail.defer(head(storage), "450 try later")
    add(storage, kind="second")
    storage.mail.defer(head(storage), "451 no space")
    assert [(each.attempts, each.last_error) for each in storage.mail.listed(10)] == [
        (2, "451 no space"),
        (1, "451 no space"),
    ]
    assert not storage.mail.is_due()
