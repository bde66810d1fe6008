from __future__ import annotations

import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peewee
import pytest

from storage import Storage, TokenKind, User
from tests.storage.world import HandClock

NONCE = "a-nonce-of-the-command-line"


def _rows(storage: Storage) -> int:
    count: int = storage.handoffs._database.execute("SELECT count(*) FROM handoffs").get
    return count


def test_who_knows_the_nonce_gets_a_session_of_the_user_once(storage: Storage, user: User):
    assert storage.handoffs.claim(NONCE) is None
    storage.handoffs.park(user.id, NONCE)
    assert storage.handoffs.claim(NONCE + "x") is None

    token = storage.handoffs.claim(NONCE)
    assert token is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    caller = storage.tokens.caller(token)
    assert caller is not None
    assert (caller.user, caller.kind) == (user, TokenKind.SESSION)
    assert storage.handoffs.claim(NONCE) is None


def test_a_nonce_that_came_hashed_is_the_same_nonce(storage: Storage, user: User):
    storage.handoffs.park_hashed(user.id, hashlib.sha256(NONCE.encode()).digest())
    assert storage.handoffs.claim(NONCE) is not None


def test_a_nonce_lasts_sixty_seconds(storage: Storage, user: User, clock: HandClock):
    storage.handoffs.park(user.id, NONCE)
    clock.turn(seconds=60, microseconds=-1)
    assert storage.handoffs.claim(NONCE) is not None
    storage.handoffs.park(user.id, NONCE)
    clock.turn(seconds=60)
    assert storage.handoffs.claim(NONCE) is None


def test_a_code_lasts_three_hundred_seconds(storage: Storage, user: User, clock: HandClock):
    early, late = storage.handoffs.issue_code(user.id), storage.handoffs.issue_code(user.id)
    clock.turn(seconds=300, microseconds=-1)
    assert storage.handoffs.redeem(early) is not None
    assert storage.handoffs.redeem(early) is None
    clock.turn(microseconds=1)
    assert storage.handoffs.redeem(late) is None


def test_a_code_has_sixteen_characters_that_are_not_taken_for_others(storage: Storage, user: User):
    codes = {storage.handoffs.issue_code(user.id) for _ in range(64)}
    assert len(codes) == 64
    assert set("".join(codes)) == set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    assert {len(code) for code in codes} == {16}


@pytest.mark.parametrize("typed", [" {0}-{1}\n", "{0} {1}", "{0}\u2013{1}", "{0}--{1}\u00a0"])
def test_case_spaces_and_dashes_of_a_code_are_forgiven(storage: Storage, user: User, typed: str):
    code = storage.handoffs.issue_code(user.id)
    assert storage.handoffs.redeem(typed.format(code[:5].lower(), code[5:])) is not None


@pytest.mark.parametrize("typed", ["", "-", "0" * 16, "\x00", "\ud800", "é" * 10_000])
def test_what_is_no_code_gets_nothing(storage: Storage, user: User, typed: str):
    storage.handoffs.issue_code(user.id)
    assert storage.handoffs.redeem(typed) is None


def test_a_code_is_no_nonce_and_a_nonce_no_code(storage: Storage, user: User):
    code = storage.handoffs.issue_code(user.id)
    storage.handoffs.park(user.id, "0123456789ABCDEF")
    assert storage.handoffs.claim(code) is storage.handoffs.redeem("0123456789ABCDEF") is None


def test_a_later_parking_takes_the_place_of_an_earlier_one(storage: Storage, user: User, clock: HandClock):
    other = storage.users.create("bob@example.org", "Bob")
    storage.handoffs.park(other.id, NONCE)
    clock.turn(seconds=59)
    storage.handoffs.park(user.id, NONCE)
    clock.turn(seconds=59)
    caller = storage.tokens.caller(storage.handoffs.claim(NONCE) or "")
    assert caller is not None
    assert caller.user == user


def test_of_many_claims_at_once_one_gets_the_session(storage: Storage, user: User):
    claimers = 8
    for turn in range(20):
        nonce = f"{NONCE}-{turn}"
        storage.handoffs.park(user.id, nonce)
        together = threading.Barrier(claimers)

        def claim(nonce: str = nonce, together: threading.Barrier = together) -> str | None:
            together.wait()
            return storage.handoffs.claim(nonce)

        with ThreadPoolExecutor(claimers) as threads:
            tokens = [claimed.result() for claimed in [threads.submit(claim) for _ in range(claimers)]]
        assert sum(token is not None for token in tokens) == 1
        assert len(storage.tokens.of_user(user.id)) == turn + 1


def test_the_session_lasts_thirty_days_from_the_claim_and_is_made_no_earlier(
    storage: Storage, user: User, clock: HandClock
):
    storage.handoffs.park(user.id, NONCE)
    assert storage.tokens.of_user(user.id) == []
    claimed_at = clock.turn(seconds=30)
    token = storage.handoffs.claim(NONCE)
    assert token is not None
    (session,) = storage.tokens.of_user(user.id)
    assert session.created_at == claimed_at
    clock.turn(days=30, microseconds=-1)
    assert storage.tokens.caller(token) is not None
    clock.turn(microseconds=1)
    assert storage.tokens.caller(token) is None


def test_what_could_not_be_handed_over_still_waits(storage: Storage, user: User):
    storage.handoffs.park(user.id, NONCE)
    database = storage.handoffs._database
    database.execute("CREATE TRIGGER broken BEFORE INSERT ON tokens BEGIN SELECT raise(ABORT, 'broken'); END")
    with pytest.raises(peewee.IntegrityError, match="broken"):
        storage.handoffs.claim(NONCE)
    database.execute("DROP TRIGGER broken")
    assert storage.handoffs.claim(NONCE) is not None


def test_what_is_over_is_removed_when_more_comes(storage: Storage, user: User, clock: HandClock):
    storage.handoffs.park(user.id, NONCE)
    storage.handoffs.issue_code(user.id)
    clock.turn(seconds=60)
    storage.handoffs.issue_code(user.id)
    assert _rows(storage) == 2
    clock.turn(seconds=300)
    storage.handoffs.park(user.id, NONCE)
    assert _rows(storage) == 1


def test_neither_nonce_nor_code_nor_session_is_stored(storage: Storage, user: User, tmp_path: Path):
    storage.handoffs.park(user.id, NONCE)
    code = storage.handoffs.issue_code(user.id)
    token = storage.handoffs.claim(NONCE)
    assert token is not None
    for file in (tmp_path / "state").glob("*sqlite3*"):
        for secret in (NONCE, code, token):
            assert secret.encode() not in file.read_bytes()


def test_polling_in_vain_waits_for_no_writer(storage: Storage, user: User):
    storage.handoffs.issue_code(user.id)
    with ThreadPoolExecutor(1) as threads, storage.handoffs._database.write():
        assert threads.submit(storage.handoffs.claim, NONCE).result(timeout=60) is None
