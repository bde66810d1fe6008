from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import pytest

from storage import Storage, Token, TokenKind, User
from storage.accounts.tokens import Tokens
from storage.database.clock import from_micros
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.state import database_in, run_sql


def test_a_new_key_is_shown_once_and_stored_as_a_hash_alone(storage: Storage, user: User, tmp_path: Path):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    assert token.startswith("ci_")
    assert len(token) == 3 + 43
    assert (key.description, key.expires_at, key.last_used_at) == ("laptop", None, None)
    connection = apsw.Connection(str(tmp_path / "state" / "ci-daemon.sqlite3"))
    ((stored,),) = connection.execute("SELECT hash FROM tokens").fetchall()
    connection.close()
    assert stored == hashlib.sha256(token.encode()).digest()
    for file in (tmp_path / "state").glob("*sqlite3*"):
        assert token.encode() not in file.read_bytes()


def test_a_token_names_its_caller(storage: Storage, user: User):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    caller = storage.tokens.caller(token)
    assert caller is not None
    assert (caller.user, caller.token_id) == (user, key.id)


@pytest.mark.parametrize("token", ["", "ci_", "ci_" + "A" * 43, "\x00", "\ud800", "é" * 10_000])
def test_an_unknown_token_has_no_caller(storage: Storage, user: User, token: str):
    storage.tokens.create_api_key(user.id, "laptop")
    assert storage.tokens.caller(token) is None


def test_a_token_ends_at_the_instant_it_expires(storage: Storage, user: User, clock: ManualClock):
    expires_at = clock.now() + timedelta(hours=1)
    key, token = storage.tokens.create_api_key(user.id, "ci", expires_at)
    assert key.expires_at == expires_at
    clock.advance(hours=1, microseconds=-1)
    assert storage.tokens.caller(token) is not None
    clock.advance(microseconds=1)
    assert storage.tokens.caller(token) is None


def _last_used(storage: Storage, key: Token) -> datetime | None:
    ((used,),) = run_sql(storage.directory, "SELECT last_used_at FROM tokens WHERE id = :id", id=key.id)
    return None if used is None else from_micros(used)


def test_its_use_is_noted_once_a_minute_at_most(storage: Storage, user: User, clock: ManualClock):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    first = clock.advance(seconds=1)
    storage.tokens.caller(token)
    assert _last_used(storage, key) == first
    clock.advance(seconds=59)
    storage.tokens.caller(token)
    assert _last_used(storage, key) == first
    later = clock.advance(seconds=1)
    storage.tokens.caller(token)
    assert _last_used(storage, key) == later


class OvertakenDatabase(Database):
    """A database in which another process writes just before this one."""

    overtake: Callable[[], object] | None = None

    @contextmanager
    def write_at_once(self) -> Iterator[None]:
        overtake, self.overtake = self.overtake, None
        if overtake is not None:
            overtake()
        with super().write_at_once():
            yield


def test_its_use_is_noted_once_whoever_else_saw_that_it_was_time(storage: Storage, user: User, clock: ManualClock):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    first = clock.now()
    database = OvertakenDatabase(storage.directory / "ci-daemon.sqlite3", clock)

    def overtake() -> None:
        clock.advance(seconds=1)
        storage.tokens.caller(token)

    database.overtake = overtake
    clock.advance(seconds=59)
    assert Tokens(database).caller(token) is not None
    database.close()
    assert _last_used(storage, key) == first + timedelta(seconds=60)


def test_who_reads_while_another_thread_writes_does_not_wait(storage: Storage, database: Database, user: User):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    with ThreadPoolExecutor(1) as threads, database.write():
        assert threads.submit(storage.tokens.caller, token).result(timeout=60) is not None
    assert _last_used(storage, key) is None
    storage.tokens.caller(token)
    assert _last_used(storage, key) is not None


def test_who_reads_while_another_process_writes_does_not_wait(
    storage: Storage, user: User, clock: ManualClock, tmp_path: Path
):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    other = apsw.Connection(str(tmp_path / "state" / "ci-daemon.sqlite3"))
    other.execute("BEGIN IMMEDIATE")
    with closing(database_in(storage.directory, clock, busy_seconds=600)) as patient, ThreadPoolExecutor(1) as threads:
        assert threads.submit(Tokens(patient).caller, token).result(timeout=60) is not None
    other.execute("ROLLBACK")
    other.close()
    assert _last_used(storage, key) is None
    storage.tokens.caller(token)
    assert _last_used(storage, key) is not None


def test_a_session_has_no_prefix_and_ends_after_thirty_days(storage: Storage, user: User, clock: ManualClock):
    session, token = storage.tokens.create_session(user.id, "browser")
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
    assert (session.kind, session.expires_at) == (TokenKind.SESSION, clock.now() + timedelta(days=30))
    caller = storage.tokens.caller(token)
    assert caller is not None
    assert caller.kind is TokenKind.SESSION
    clock.advance(days=30)
    assert storage.tokens.caller(token) is None


def test_a_revoked_token_can_only_be_revoked_again(storage: Storage, user: User, clock: ManualClock):
    _, token = storage.tokens.create_session(user.id, "browser")
    assert storage.tokens.revoke(token)
    assert storage.tokens.caller(token) is None
    assert storage.tokens.revoke(token)
    assert not storage.tokens.revoke(token + "x")
    assert storage.tokens.of_user(user.id) == []


def test_lists_are_of_one_user_without_revoked_tokens(storage: Storage, user: User):
    other = storage.users.create("bob@example.org", "Bob")
    storage.tokens.create_api_key(other.id, "of another")
    first, _ = storage.tokens.create_api_key(user.id, "first")
    session, _ = storage.tokens.create_session(user.id, "browser")
    second, _ = storage.tokens.create_api_key(user.id, "second")
    gone, _ = storage.tokens.create_api_key(user.id, "gone")
    assert storage.tokens.revoke_api_key(user.id, gone.uuid)
    assert storage.tokens.api_keys(user.id) == [second, first], "newest first"
    assert storage.tokens.of_user(user.id) == [first, session, second], "oldest first"


def test_an_api_key_is_revoked_once_and_by_its_owner(storage: Storage, user: User):
    other = storage.users.create("bob@example.org", "Bob")
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    session, _ = storage.tokens.create_session(user.id, "browser")
    assert not storage.tokens.revoke_api_key(other.id, key.uuid)
    assert not storage.tokens.revoke_api_key(user.id, session.uuid)
    assert not storage.tokens.revoke_api_key(user.id, "no uuid")
    assert storage.tokens.caller(token) is not None
    assert storage.tokens.revoke_api_key(user.id, key.uuid)
    assert not storage.tokens.revoke_api_key(user.id, key.uuid)
    assert storage.tokens.caller(token) is None


def test_the_operator_revokes_any_token_by_its_id(storage: Storage, user: User):
    session, token = storage.tokens.create_session(user.id, "browser")
    assert storage.tokens.revoke_named(session.uuid)
    assert storage.tokens.caller(token) is None
    assert not storage.tokens.revoke_named(session.uuid)


def test_rows_that_ended_30_days_ago_go_when_a_new_one_comes(storage: Storage, user: User, clock: ManualClock):
    _, lasting = storage.tokens.create_api_key(user.id, "lasting")
    _, revoked = storage.tokens.create_api_key(user.id, "revoked")
    _, short = storage.tokens.create_api_key(user.id, "short", clock.now() + timedelta(days=1))
    storage.tokens.revoke(revoked)
    clock.advance(days=30)
    storage.tokens.create_api_key(user.id, "more")
    assert not storage.tokens.revoke(revoked)
    assert storage.tokens.revoke(short)
    clock.advance(days=31)
    storage.tokens.create_api_key(user.id, "more")
    assert not storage.tokens.revoke(short)
    assert storage.tokens.caller(lasting) is not None


def test_a_token_is_good_while_its_use_cannot_be_noted(storage: Storage, database: Database, user: User):
    _, token = storage.tokens.create_api_key(user.id, "laptop")
    database.execute("PRAGMA query_only = on")
    caller = storage.tokens.caller(token)
    database.execute("PRAGMA query_only = off")
    assert caller is not None


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
    with pytest.raises(apsw.ConstraintError, match="broken"):
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
