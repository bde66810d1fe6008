from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storage import PasskeyPurpose, Storage, new_handle
from storage.accounts.passkeys import PasskeyChallenges
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.state import run_sql

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
