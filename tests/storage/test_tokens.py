from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from storage import ApiKey, Storage, User
from tests.storage.world import HandClock


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
def test_a_token_that_nobody_has_names_nobody(storage: Storage, user: User, token: str):
    storage.tokens.create_api_key(user.id, "laptop")
    assert storage.tokens.caller(token) is None


def test_a_token_ends_at_the_instant_it_expires(storage: Storage, user: User, clock: HandClock):
    expires_at = clock.now() + timedelta(hours=1)
    key, token = storage.tokens.create_api_key(user.id, "ci", expires_at)
    assert key.expires_at == expires_at
    clock.turn(hours=1, microseconds=-1)
    assert storage.tokens.caller(token) is not None
    clock.turn(microseconds=1)
    assert storage.tokens.caller(token) is None


def _last_used(storage: Storage, key: ApiKey):
    found = storage.tokens._by_id.one(id=key.id)
    assert found is not None
    return found.last_used_at


def test_its_use_is_noted_once_a_minute_at_most(storage: Storage, user: User, clock: HandClock):
    key, token = storage.tokens.create_api_key(user.id, "laptop")
    first = clock.turn(seconds=1)
    storage.tokens.caller(token)
    assert _last_used(storage, key) == first
    clock.turn(seconds=59)
    storage.tokens.caller(token)
    assert _last_used(storage, key) == first
    later = clock.turn(seconds=1)
    storage.tokens.caller(token)
    assert _last_used(storage, key) == later


def test_a_token_is_good_while_its_use_cannot_be_noted(storage: Storage, user: User):
    _, token = storage.tokens.create_api_key(user.id, "laptop")
    storage.tokens._database.execute("PRAGMA query_only = on")
    caller = storage.tokens.caller(token)
    storage.tokens._database.execute("PRAGMA query_only = off")
    assert caller is not None
