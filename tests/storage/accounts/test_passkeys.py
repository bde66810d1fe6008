from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import LastPasskey, NewPasskey, Passkey, PasskeyTaken, Storage, TooManyPasskeys, User, new_handle
from tests.clock import ManualClock


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
