from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peewee
import pytest

from storage import Storage, TokenKind, User
from storage.database.connection import Database
from tests.clock import ManualClock

NONCE = "a-nonce-of-the-command-line"


def _rows(database: Database) -> int:
    count: int = database.execute("SELECT count(*) FROM handoffs").get
    return count


def test_who_knows_the_nonce_gets_a_session_of_the_user_once(storage: Storage, user: User):
    assert storage.cli_logins.claim(NONCE) is None
    storage.cli_logins.offer(user.id, NONCE)
    assert storage.cli_logins.claim(NONCE + "x") is None

    token = storage.cli_logins.claim(NONCE)
    assert token is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    caller = storage.tokens.caller(token)
    assert caller is not None
    assert (caller.user, caller.kind) == (user, TokenKind.SESSION)
    assert storage.cli_logins.claim(NONCE) is None


def test_a_nonce_that_came_hashed_is_the_same_nonce(storage: Storage, user: User):
    storage.cli_logins.offer_hashed(user.id, hashlib.sha256(NONCE.encode()).digest())
    assert storage.cli_logins.claim(NONCE) is not None


def test_a_nonce_lasts_sixty_seconds(storage: Storage, user: User, clock: ManualClock):
    storage.cli_logins.offer(user.id, NONCE)
    clock.advance(seconds=60, microseconds=-1)
    assert storage.cli_logins.claim(NONCE) is not None
    storage.cli_logins.offer(user.id, NONCE)
    clock.advance(seconds=60)
    assert storage.cli_logins.claim(NONCE) is None


def test_a_code_lasts_three_hundred_seconds(storage: Storage, user: User, clock: ManualClock):
    early, late = storage.cli_logins.issue_code(user.id), storage.cli_logins.issue_code(user.id)
    clock.advance(seconds=300, microseconds=-1)
    assert storage.cli_logins.redeem(early) is not None
    assert storage.cli_logins.redeem(early) is None
    clock.advance(microseconds=1)
    assert storage.cli_logins.redeem(late) is None


def test_a_code_has_16_characters_that_are_hard_to_confuse(storage: Storage, user: User):
    codes = {storage.cli_logins.issue_code(user.id) for _ in range(64)}
    assert len(codes) == 64
    assert set("".join(codes)) == set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    assert {len(code) for code in codes} == {16}


@pytest.mark.parametrize("typed", [" {0}-{1}\n", "{0} {1}", "{0}\u2013{1}", "{0}--{1}\u00a0"])
def test_case_spaces_and_dashes_of_a_code_are_forgiven(storage: Storage, user: User, typed: str):
    code = storage.cli_logins.issue_code(user.id)
    assert storage.cli_logins.redeem(typed.format(code[:5].lower(), code[5:])) is not None


@pytest.mark.parametrize("typed", ["", "-", "0" * 16, "\x00", "\ud800", "é" * 10_000])
def test_an_invalid_code_gets_nothing(storage: Storage, user: User, typed: str):
    storage.cli_logins.issue_code(user.id)
    assert storage.cli_logins.redeem(typed) is None


def test_codes_and_nonces_are_not_interchangeable(storage: Storage, user: User):
    code = storage.cli_logins.issue_code(user.id)
    storage.cli_logins.offer(user.id, "0123456789ABCDEF")
    assert storage.cli_logins.claim(code) is storage.cli_logins.redeem("0123456789ABCDEF") is None


def test_a_later_parking_takes_the_place_of_an_earlier_one(storage: Storage, user: User, clock: ManualClock):
    other = storage.users.create("bob@example.org", "Bob")
    storage.cli_logins.offer(other.id, NONCE)
    clock.advance(seconds=59)
    storage.cli_logins.offer(user.id, NONCE)
    clock.advance(seconds=59)
    caller = storage.tokens.caller(storage.cli_logins.claim(NONCE) or "")
    assert caller is not None
    assert caller.user == user


def test_of_twenty_claims_at_once_one_gets_the_session(storage: Storage, user: User):
    claimers = 20
    for turn in range(8):
        nonce = f"{NONCE}-{turn}"
        storage.cli_logins.offer(user.id, nonce)
        together = threading.Barrier(claimers)

        def claim(nonce: str = nonce, together: threading.Barrier = together) -> str | None:
            together.wait()
            return storage.cli_logins.claim(nonce)

        with ThreadPoolExecutor(claimers) as threads:
            tokens = [claimed.result() for claimed in [threads.submit(claim) for _ in range(claimers)]]
        assert sum(token is not None for token in tokens) == 1
        assert len(storage.tokens.of_user(user.id)) == turn + 1


def test_of_twenty_who_type_a_code_at_once_one_gets_the_session(storage: Storage, user: User):
    code = storage.cli_logins.issue_code(user.id)
    with ThreadPoolExecutor(20) as threads:
        tokens = list(threads.map(lambda _: storage.cli_logins.redeem(code), range(20)))
    assert sum(token is not None for token in tokens) == 1
    assert len(storage.tokens.of_user(user.id)) == 1


def test_the_session_is_made_at_the_claim_and_lasts_30_days(storage: Storage, user: User, clock: ManualClock):
    storage.cli_logins.offer(user.id, NONCE)
    assert storage.tokens.of_user(user.id) == []
    claimed_at = clock.advance(seconds=30)
    token = storage.cli_logins.claim(NONCE)
    assert token is not None
    (session,) = storage.tokens.of_user(user.id)
    assert session.created_at == claimed_at
    clock.advance(days=30, microseconds=-1)
    assert storage.tokens.caller(token) is not None
    clock.advance(microseconds=1)
    assert storage.tokens.caller(token) is None


def test_what_could_not_be_handed_over_still_waits(storage: Storage, database: Database, user: User):
    storage.cli_logins.offer(user.id, NONCE)
    database.execute("CREATE TRIGGER broken BEFORE INSERT ON tokens BEGIN SELECT raise(ABORT, 'broken'); END")
    with pytest.raises(peewee.IntegrityError, match="broken"):
        storage.cli_logins.claim(NONCE)
    database.execute("DROP TRIGGER broken")
    assert storage.cli_logins.claim(NONCE) is not None


def test_what_is_over_is_removed_when_more_comes(storage: Storage, database: Database, user: User, clock: ManualClock):
    storage.cli_logins.offer(user.id, NONCE)
    storage.cli_logins.issue_code(user.id)
    clock.advance(seconds=60)
    storage.cli_logins.issue_code(user.id)
    assert _rows(database) == 2
    clock.advance(seconds=300)
    storage.cli_logins.offer(user.id, NONCE)
    assert _rows(database) == 1


def test_neither_nonce_nor_code_nor_session_is_stored(storage: Storage, user: User, tmp_path: Path):
    storage.cli_logins.offer(user.id, NONCE)
    code = storage.cli_logins.issue_code(user.id)
    token = storage.cli_logins.claim(NONCE)
    assert token is not None
    for file in (tmp_path / "state").glob("*sqlite3*"):
        for secret in (NONCE, code, token):
            assert secret.encode() not in file.read_bytes()


def test_polling_in_vain_waits_for_no_writer(storage: Storage, database: Database, user: User):
    storage.cli_logins.issue_code(user.id)
    with ThreadPoolExecutor(1) as threads, database.write():
        assert threads.submit(storage.cli_logins.claim, NONCE).result(timeout=60) is None
