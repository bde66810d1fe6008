from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage import (
    LastPasskey,
    NewPasskey,
    Passkey,
    PasskeyPurpose,
    PasskeyTaken,
    Storage,
    TooManyPasskeys,
    User,
    new_handle,
)
from storage.accounts.passkeys import PasskeyChallenges
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.state import run_sql


def a_passkey(credential: str = "credential") -> NewPasskey:
    return NewPasskey(credential.encode(), b"a public key", 0, "0" * 8, ("internal", "hybrid"))


def add(storage: Storage, user: User, credential: str = "credential") -> Passkey:
    return storage.passkeys.add(user.id, storage.passkeys.handle(user.id), a_passkey(credential), "Laptop")


@pytest.fixture
def bob(storage: Storage) -> User:
    return storage.users.create("bob@example.org", "Bob")


def test_a_passkey_is_found_by_its_credential(storage: Storage, user: User, clock: ManualClock):
    passkey = add(storage, user)

    assert storage.passkeys.by_credential(b"credential") == passkey
    assert storage.passkeys.by_credential(b"another") is None
    assert (passkey.user_id, passkey.nickname, passkey.transports) == (user.id, "Laptop", ("internal", "hybrid"))
    assert (passkey.created_at, passkey.last_used_at) == (clock.now(), None)
    assert passkey.handle == storage.passkeys.handle(user.id)


def test_an_account_has_one_random_handle(storage: Storage, user: User, bob: User):
    with ThreadPoolExecutor(20) as pool:
        handles = set(pool.map(lambda _: storage.passkeys.handle(user.id), range(20)))

    assert len(handles) == 1
    assert len(handles.pop()) == 16
    assert storage.passkeys.handle(bob.id) != storage.passkeys.handle(user.id)


def test_the_first_passkey_decides_the_handle_of_a_new_account(storage: Storage, user: User):
    handle = new_handle()
    storage.passkeys.add(user.id, handle, a_passkey(), "First")
    storage.passkeys.add(user.id, new_handle(), a_passkey("second"), "Second")

    assert [each.handle for each in storage.passkeys.of_user(user.id)] == [handle, handle]


def test_of_twenty_that_add_one_passkey_one_does(storage: Storage, user: User, bob: User):
    def attempt(number: int) -> bool:
        try:
            add(storage, (user, bob)[number % 2])
        except PasskeyTaken:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(attempt, range(20))) == 1


def test_an_account_has_fifty_passkeys_at_most(storage: Storage, user: User, bob: User):
    for number in range(50):
        add(storage, user, f"credential {number}")
    with pytest.raises(TooManyPasskeys, match="at most 50"):
        add(storage, user, "one more")
    add(storage, bob, "one more")


@pytest.mark.parametrize("counts", [(0, 0), (0, 1), (1, 2), (2, 2), (2, 1), (1, 0)])
def test_a_counter_only_grows(storage: Storage, user: User, counts: tuple[int, int]):
    passkey = add(storage, user)
    before, after = counts
    accepted = after > before or after == 0 == before
    assert storage.passkeys.use(passkey, before)
    assert storage.passkeys.use(passkey, after) is accepted
    (kept,) = storage.passkeys.of_user(user.id)
    assert kept.sign_count == (after if accepted else before)


def test_of_twenty_with_one_count_one_signs_in(storage: Storage, user: User):
    passkey = add(storage, user)
    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(lambda _: storage.passkeys.use(passkey, 7), range(20))) == 1


def test_a_deleted_passkey_signs_nobody_in(storage: Storage, user: User):
    passkey = add(storage, user)
    assert storage.passkeys.remove(user.id, passkey.uuid, others_suffice=True) == 0
    assert not storage.passkeys.use(passkey, 1)


def test_the_only_way_in_is_not_deleted(storage: Storage, user: User, bob: User):
    first, second = add(storage, user, "first"), add(storage, user, "second")

    assert storage.passkeys.remove(bob.id, first.uuid, others_suffice=True) is None
    assert storage.passkeys.remove(user.id, "unknown", others_suffice=True) is None
    assert storage.passkeys.remove(user.id, first.uuid, others_suffice=False) == 1
    with pytest.raises(LastPasskey, match="only way"):
        storage.passkeys.remove(user.id, second.uuid, others_suffice=False)
    assert storage.passkeys.of_user(user.id) == [second]


def test_of_two_deletions_at_once_one_passkey_is_left(storage: Storage, user: User):
    passkeys = [add(storage, user, f"credential {number}") for number in range(20)]

    def delete(passkey: Passkey) -> bool:
        try:
            return storage.passkeys.remove(user.id, passkey.uuid, others_suffice=False) is not None
        except LastPasskey:
            return False

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(delete, passkeys)) == 19
    assert len(storage.passkeys.of_user(user.id)) == 1


def test_a_closed_account_leaves_no_passkey(storage: Storage, user: User, bob: User):
    add(storage, user)
    handle = storage.passkeys.handle(user.id)
    storage.accounts.close(user.id)

    assert storage.passkeys.by_credential(b"credential") is None
    assert storage.passkeys.of_user(user.id) == []
    assert storage.passkeys.handle(user.id) != handle
    add(storage, bob)


REGISTRATION = PasskeyPurpose.REGISTRATION


def test_a_challenge_is_used_once(storage: Storage):
    handle = new_handle()
    issued = storage.passkey_challenges.issue(REGISTRATION, "ann", handle)

    assert len(issued.challenge) == 32
    assert storage.passkey_challenges.take(issued.uuid, REGISTRATION, "ann") == issued
    assert issued.handle == handle
    assert storage.passkey_challenges.take(issued.uuid, REGISTRATION, "ann") is None


def test_of_twenty_at_once_one_takes_the_challenge(storage: Storage):
    issued = storage.passkey_challenges.issue(PasskeyPurpose.SIGN_IN, "")

    def take(_: int) -> bool:
        return storage.passkey_challenges.take(issued.uuid, PasskeyPurpose.SIGN_IN, "") is not None

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(take, range(20))) == 1


@pytest.mark.parametrize("purpose", PasskeyPurpose)
@pytest.mark.parametrize("taken_as", PasskeyPurpose)
@pytest.mark.parametrize("owner", ["ann", "bob", ""])
def test_it_is_bound_to_its_purpose_and_owner(
    storage: Storage, purpose: PasskeyPurpose, taken_as: PasskeyPurpose, owner: str
):
    issued = storage.passkey_challenges.issue(
        purpose, "ann", None if purpose is PasskeyPurpose.SIGN_IN else new_handle()
    )
    taken = storage.passkey_challenges.take(issued.uuid, taken_as, owner)

    assert (taken == issued) is (purpose is taken_as and owner == "ann")
    assert (taken is None) is (purpose is not taken_as or owner != "ann")


def test_it_lasts_300_seconds(storage: Storage, clock: ManualClock):
    for seconds, taken in ((299.999999, True), (300, False)):
        issued = storage.passkey_challenges.issue(PasskeyPurpose.SIGN_IN, "")
        clock.advance(seconds)
        found = storage.passkey_challenges.take(issued.uuid, PasskeyPurpose.SIGN_IN, "")
        assert (found is not None) is taken


def _kept(tmp_path: Path) -> int:
    return int(run_sql(tmp_path / "state", "SELECT count(*) FROM passkey_challenges")[0][0])


def test_expired_ones_are_removed(storage: Storage, clock: ManualClock, tmp_path: Path):
    for _ in range(50):
        storage.passkey_challenges.issue(PasskeyPurpose.SIGN_IN, "")
    clock.advance(300)
    storage.passkey_challenges.issue(PasskeyPurpose.SIGN_IN, "")
    assert _kept(tmp_path) == 1


def test_a_flood_removes_the_oldest(storage: Storage, database: Database, tmp_path: Path):
    challenges = PasskeyChallenges(database, most=20)
    issued = [challenges.issue(PasskeyPurpose.SIGN_IN, "") for _ in range(100)]

    assert _kept(tmp_path) == 20
    assert challenges.take(issued[79].uuid, PasskeyPurpose.SIGN_IN, "") is None
    assert challenges.take(issued[80].uuid, PasskeyPurpose.SIGN_IN, "") is not None


def test_the_owner_is_stored_as_a_hash_alone(storage: Storage, tmp_path: Path):
    storage.passkey_challenges.issue(REGISTRATION, "a token of a link", new_handle())
    files = (tmp_path / "state").glob("ci-daemon.sqlite3*")
    assert b"a token of a link" not in b"".join(file.read_bytes() for file in files)
