"""The keys that sign identity tokens, over the months of their lives."""

from __future__ import annotations

import pytest
from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import KeySet

from storage import SealBroken, Storage
from tests.clock import ManualClock
from tests.state import run_sql


def names(storage: Storage) -> list[object]:
    """Return the names of the public keys, newest first."""
    return [each["kid"] for each in storage.issuer_keys.public()]


def name_of(token: str, storage: Storage) -> object:
    """Return the name of the key of a token that the public keys of now verify."""
    keys = KeySet.import_key_set({"keys": [dict(each) for each in storage.issuer_keys.public()]})  # type: ignore[typeddict-item]
    return jwt.decode(token, keys, algorithms=["RS256"]).header["kid"]


def test_a_key_is_public_before_it_signs_and_after(storage: Storage, clock: ManualClock):
    issuer = storage.issuer_keys
    (first,) = names(storage)
    assert name_of(issuer.signed({"sub": "a"}), storage) == first
    clock.advance(days=29)
    assert names(storage) == [first]

    clock.advance(days=1)
    second, _ = names(storage)
    assert names(storage) == [second, first]
    assert name_of(issuer.signed({"sub": "a"}), storage) == first, "nobody has fetched the new one yet"

    clock.advance(hours=23, minutes=59)
    late = issuer.signed({"sub": "a"})
    clock.advance(minutes=2)
    assert name_of(issuer.signed({"sub": "a"}), storage) == second
    clock.advance(minutes=59)
    assert name_of(late, storage) == first, "its token may live for an hour"
    clock.advance(hours=1)
    assert names(storage) == [second]
    with pytest.raises(JoseError):
        name_of(late, storage)

    clock.advance(days=30)
    third, _ = names(storage)
    assert names(storage) == [third, second]
    erased = run_sql(storage.directory, "SELECT private_key = x'' FROM issuer_keys ORDER BY id")
    assert erased == [(1,), (0,), (0,)], "its public half verifies provenance for years"
    assert [each["kid"] for each in storage.issuer_keys.ever_public()] == [third, second, first]


def test_a_public_key_has_nothing_private(storage: Storage):
    (key,) = storage.issuer_keys.public()
    assert set(key) == {"kty", "n", "e", "kid", "use", "alg"}
    assert (key["kty"], key["alg"], len(str(key["n"]))) == ("RSA", "RS256", 342)


def test_a_private_key_is_sealed_in_its_place(storage: Storage):
    storage.issuer_keys.public()
    ((sealed,),) = run_sql(storage.directory, "SELECT private_key FROM issuer_keys")
    assert b"PRIVATE KEY" not in sealed
    run_sql(storage.directory, "UPDATE issuer_keys SET uuid = 'another'")
    with pytest.raises(SealBroken):
        storage.issuer_keys.signed({})


def test_a_token_of_another_service_is_not_taken(storage: Storage):
    ours, theirs = storage.issuer_keys.signed({"sub": "a"}), storage.issuer_keys.signed({"sub": "b"})
    header, payload, _ = ours.split(".")
    with pytest.raises(BadSignatureError):
        name_of(f"{header}.{payload}.{theirs.rpartition('.')[2]}", storage)
