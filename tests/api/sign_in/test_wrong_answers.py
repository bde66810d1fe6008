"""Answers of authenticators that are wrong in one field, each of which must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.sign_in.browser_credentials import CredentialUnreadable, read_assertion, read_attestation
from api.sign_in.relying_party import RelyingParty
from api.sign_in.webauthn import (
    AnswerRefused,
    UserNotVerified,
    creation_options,
    request_options,
    verify_assertion,
    verify_attestation,
)
from storage import NewPasskey, Passkey
from tests.authenticator import BE, BS, ES256, ORIGIN, RP_ID, RS256, UP, UV, Authenticator, base64url, unbase64url
from tests.clock import ManualClock

PARTY = RelyingParty(RP_ID, "CI", (ORIGIN, "https://console.ci.example.org"))
CHALLENGE = b"c" * 32
HANDLE = b"h" * 16
CREATION = creation_options(PARTY, CHALLENGE, HANDLE, "ada@example.org", "Ada")
REQUEST = request_options(PARTY, CHALLENGE)
OTHER_POINT = Authenticator().public_key
RSA_KEY = Authenticator(RS256).public_key
OTHER_CLIENT_DATA = json.dumps({"type": "webauthn.get", "challenge": base64url(CHALLENGE), "origin": ORIGIN}).encode()
CERTIFICATE = {"alg": -7, "sig": b"no signature", "x5c": [b"no certificate"]}

WRONG: dict[str, dict[str, Any]] = {
    "another origin": {"origin": "https://evil.example.org"},
    "an origin that begins alike": {"origin": f"{ORIGIN}.evil.org"},
    "an origin without TLS": {"origin": "http://ci.example.org"},
    "an origin with another port": {"origin": f"{ORIGIN}:8443"},
    "an origin in capitals": {"origin": ORIGIN.upper()},
    "no origin": {"origin": None},
    "a list of origins": {"origin": [ORIGIN]},
    "another relying party": {"rp_id": "example.org"},
    "another challenge": {"challenge": base64url(b"d" * 32)},
    "a shorter challenge": {"challenge": base64url(CHALLENGE[:-1])},
    "an empty challenge": {"challenge": ""},
    "a challenge that is a number": {"challenge": 7},
    "no type": {"type": None},
    "an unknown type": {"type": "webauthn.sign"},
    "a frame of another site": {"client_data": {"crossOrigin": True}},
    "a top page of another site": {"client_data": {"topOrigin": "https://evil.example.org"}},
    "nobody present": {"flags": UV},
    "no flags": {"flags": 0},
    "backed up, but not eligible for it": {"flags": UP | UV | BS},
    "client data that is no JSON": {"raw_client_data": b"{"},
    "client data that is a list": {"raw_client_data": b"[]"},
    "client data that is empty": {"raw_client_data": b" "},
    "client data that is not UTF-8": {"raw_client_data": b'{"type": "\xff"}'},
    "client data nested deeply": {"raw_client_data": b"[" * 30_000},
    "authenticator data that is cut": {"auth_data": b"x" * 36},
    "bytes after the authenticator data": {"extra": b"x"},
}
WRONG_ATTESTATIONS: dict[str, dict[str, Any]] = {
    **WRONG,
    "the type of a sign-in": {"type": "webauthn.get"},
    "another id": {"credential_id": b"another"},
    "another id in the authenticator data": {"attested_id": b"another"},
    "no id": {"attested_id": b""},
    "an attestation that is empty": {"attestation_object": cbor2.dumps({})},
    "an attestation that is a list": {"attestation_object": cbor2.dumps([1, 2])},
    "an attestation that is no CBOR": {"attestation_object": b"\xff\xff"},
    "an attestation nested deeply": {"attestation_object": b"\x81" * 40_000},
    "an attestation that claims to be huge": {"attestation_object": b"\x5b" + b"\x7f" * 8},
    "an attestation with the same key twice": {"attestation_object": b"\xa2" + b"\x63fmt\x64none" * 2},
    "authenticator data that is a text": {"attestation_object": cbor2.dumps({"fmt": "none", "authData": "text"})},
    "ES384": {"key": {3: -35, -1: 2}},
    "EdDSA": {"raw_key": cbor2.dumps({1: 1, 3: -8, -1: 6, -2: b"x" * 32})},
    "EdDSA, as some write it": {"raw_key": bytes.fromhex("a301634f4b500327206745643235353139215820") + b"x" * 32},
    "PS256": {"raw_key": cbor2.dumps({**RSA_KEY, 3: -37})},
    "RS1": {"raw_key": cbor2.dumps({**RSA_KEY, 3: -65535})},
    "a curve's point as RS256": {"key": {3: RS256}},
    "an RSA key as ES256": {"raw_key": cbor2.dumps({**RSA_KEY, 3: ES256})},
    "an HMAC key": {"raw_key": cbor2.dumps({1: 4, 3: 5, -1: b"x" * 32})},
    "no algorithm": {"key": {3: 0}},
    "another curve": {"key": {-1: 3}},
    "a point that is not on the curve": {"key": {-2: OTHER_POINT[-2]}},
    "a point that is zero": {"key": {-2: b"\0" * 32, -3: b"\0" * 32}},
    "a point that is a text": {"key": {-2: "x"}},
    "a key that is a number": {"raw_key": b"\x04"},
    "a key that is cut": {"raw_key": cbor2.dumps(OTHER_POINT)[:-1]},
    "a key without a part": {"raw_key": cbor2.dumps({1: 2, 3: ES256, -1: 1, -2: b"x" * 32})},
    "a key with much beside it": {"key": {99: b"x" * 1024}},
    "an RSA key of 1024 bits": {"raw_key": cbor2.dumps({**RSA_KEY, -1: b"\xff" * 128})},
    "an RSA key of 32768 bits": {"raw_key": cbor2.dumps({**RSA_KEY, -1: b"\xff" * 4096})},
    "an RSA key with exponent 1": {"raw_key": cbor2.dumps({**RSA_KEY, -2: b"\1"})},
    "an RSA key with a long exponent": {"raw_key": cbor2.dumps({**RSA_KEY, -2: b"\xff" * 200})},
}
WRONG_ASSERTIONS: dict[str, dict[str, Any]] = {
    **WRONG,
    "the type of a registration": {"type": "webauthn.create"},
    "another account's handle": {"handle": b"i" * 16},
    "an empty handle": {"handle": b""},
    "no handle": {"response": {"userHandle": None}},
    "a signature of something else": {"signed": b"something else"},
    "a signature that is cut": {"signature": b"\x30\x44\x02\x20"},
    "a signature of zeros": {"signature": b"\0" * 70},
    "a signature with r and s of 0": {"signature": bytes.fromhex("3006020100020100")},
    "client data other than the signed one": {"sent_client_data": OTHER_CLIENT_DATA},
    "a counter that stands still": {"sign_count": 5},
    "a counter that went back": {"sign_count": 4},
    "a counter that went back to 0": {"sign_count": 0},
}
UNREADABLE: dict[str, dict[str, Any]] = {
    "no type": {"credential": {"type": None}},
    "another type": {"credential": {"type": "password"}},
    "no id": {"credential": {"id": None}},
    "an empty id": {"credential": {"id": "", "rawId": ""}},
    "a long id": {"credential_id": b"x" * 1024},
    "an id that is not base64": {"credential": {"id": "a b"}},
    "an id of a wrong length": {"credential": {"id": "abcde"}},
    "two ids": {"credential": {"rawId": base64url(b"another")}},
    "client data that is a number": {"response": {"clientDataJSON": 7}},
    "no client data": {"response": {"clientDataJSON": None}},
    "client data in base64 with a line end": {"response": {"clientDataJSON": "aaaa\n"}},
    "client data in base64 of other digits": {"response": {"clientDataJSON": "aaa\u0660"}},
}  # fmt: skip


def attested(authenticator: Authenticator, **given: Any) -> NewPasskey:
    return verify_attestation(PARTY, CHALLENGE, read_attestation(authenticator.create(CREATION, **given)))


def passkey_of(authenticator: Authenticator, **given: Any) -> Passkey:
    made = attested(authenticator)
    more = {"id": 1, "uuid": "", "user_id": 1, "handle": HANDLE, "nickname": "", "created_at": ManualClock().now()}
    return Passkey(**{**asdict(made), **more, "last_used_at": None, **given})


def asserted(authenticator: Authenticator, passkey: Passkey, **given: Any) -> int:
    return verify_assertion(PARTY, CHALLENGE, passkey, read_assertion(authenticator.get(REQUEST, **given)))


@pytest.mark.parametrize("algorithm", [ES256, RS256])
@pytest.mark.parametrize("origin", PARTY.origins)
def test_right_answers_are_accepted(algorithm: int, origin: str):
    authenticator = Authenticator(algorithm, origin)
    passkey = passkey_of(authenticator)

    assert passkey.credential_id == authenticator.credential_id
    assert cbor2.loads(passkey.public_key) == authenticator.public_key
    assert (passkey.aaguid, passkey.transports) == ("01020304-0506-0708-090a-0b0c0d0e0f10", ("internal", "hybrid"))
    assert asserted(authenticator, passkey) == 1


@pytest.mark.parametrize("flags", [UP | UV | BE, UP | UV | BE | BS])
def test_synchronized_passkeys_are_accepted(flags: int):
    authenticator = Authenticator(counts=False)
    passkey = passkey_of(authenticator)
    assert attested(Authenticator(), flags=flags)
    assert asserted(authenticator, passkey, flags=flags) == 0
    assert asserted(authenticator, passkey, flags=flags) == 0


@pytest.mark.parametrize(
    ("form", "statement"),
    [("packed", CERTIFICATE), ("packed", {}), ("tpm", CERTIFICATE), ("unknown", []), (None, None)],
)
def test_a_statement_about_the_authenticator_is_not_looked_at(form: object, statement: object):
    authenticator = Authenticator()
    assert attested(authenticator, fmt=form, statement=statement).credential_id == authenticator.credential_id


@pytest.mark.parametrize("wrong", WRONG_ATTESTATIONS.values(), ids=WRONG_ATTESTATIONS)
def test_a_wrong_attestation_is_refused(wrong: dict[str, Any]):
    with pytest.raises((AnswerRefused, CredentialUnreadable)) as raised:
        attested(Authenticator(), **wrong)
    assert "__cause__" not in str(raised.value)


@pytest.mark.parametrize("algorithm", [ES256, RS256])
@pytest.mark.parametrize("wrong", WRONG_ASSERTIONS.values(), ids=WRONG_ASSERTIONS)
def test_a_wrong_assertion_is_refused(algorithm: int, wrong: dict[str, Any]):
    authenticator = Authenticator(algorithm)
    passkey = passkey_of(authenticator, sign_count=5)
    with pytest.raises((AnswerRefused, CredentialUnreadable)) as raised:
        asserted(authenticator, passkey, **{"sign_count": 6, **wrong})
    assert "__cause__" not in str(raised.value)
    assert asserted(authenticator, passkey, sign_count=6) == 6


@pytest.mark.parametrize("wrong", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("read", [read_attestation, read_assertion])
def test_an_unreadable_credential_is_refused(read: Callable[[dict[str, Any]], object], wrong: dict[str, Any]):
    authenticator = Authenticator()
    answer = (
        authenticator.create(CREATION, **wrong) if read is read_attestation else authenticator.get(REQUEST, **wrong)
    )
    with pytest.raises(CredentialUnreadable):
        read(answer)


def test_without_user_verification_an_answer_is_refused():
    authenticator = Authenticator()
    passkey = passkey_of(authenticator)
    with pytest.raises(UserNotVerified):
        attested(Authenticator(), flags=UP)
    with pytest.raises(UserNotVerified):
        asserted(authenticator, passkey, flags=UP)
    with pytest.raises(AnswerRefused):
        asserted(authenticator, passkey, flags=UP, signature=b"\0" * 70)


@pytest.mark.parametrize("algorithm", [ES256, RS256])
def test_another_passkeys_signature_is_refused(algorithm: int):
    passkey = passkey_of(Authenticator(algorithm))
    with pytest.raises(AnswerRefused, match="signature"):
        asserted(Authenticator(ES256, handle=HANDLE), passkey)


def test_standard_base64_and_padding_are_understood():
    authenticator = Authenticator(credential_id=b"\xff\xfe\xfd\xfc")
    made = authenticator.create(CREATION)
    response = made["response"]

    def standard(text: str) -> str:
        return text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4)

    texts = {name: standard(value) for name, value in response.items() if isinstance(value, str)}
    document = {**made, "id": "//79/A==", "rawId": "__79_A", "response": {**response, **texts}}
    assert read_attestation(document) == read_attestation(made)
    del document["rawId"]
    assert read_attestation(document).credential_id == b"\xff\xfe\xfd\xfc"


def test_options_ask_for_a_discoverable_and_verified_passkey():
    assert CREATION["rp"] == {"name": "CI", "id": RP_ID}
    assert CREATION["user"] == {"id": base64url(HANDLE), "name": "ada@example.org", "displayName": "Ada"}
    assert CREATION["pubKeyCredParams"] == [{"type": "public-key", "alg": -7}, {"type": "public-key", "alg": -257}]
    assert (CREATION["timeout"], CREATION["attestation"]) == (300_000, "none")
    selection = {"residentKey": "required", "requireResidentKey": True, "userVerification": "required"}
    assert CREATION["authenticatorSelection"] == selection
    assert {
        "challenge": base64url(CHALLENGE),
        "rpId": RP_ID,
        "timeout": 300_000,
        "allowCredentials": [],
        "userVerification": "required",
    } == REQUEST
    assert "=" not in CREATION["challenge"] + CREATION["user"]["id"]


def test_known_passkeys_are_excluded_from_registration():
    known = passkey_of(Authenticator())
    (excluded,) = creation_options(PARTY, CHALLENGE, HANDLE, "a@example.org", "", [known])["excludeCredentials"]
    assert (unbase64url(excluded["id"]), excluded["type"]) == (known.credential_id, "public-key")
    assert excluded["transports"] == ["internal", "hybrid"]


_MADE = Authenticator()
_MADE_PASSKEY = passkey_of(_MADE)
_SIGNED = st.sampled_from(("clientDataJSON", "authenticatorData", "signature", "userHandle"))
_BYTES = st.integers(0, 10_000)


@settings(max_examples=300, deadline=None)
@given(_SIGNED, _BYTES, st.integers(1, 255))
def test_any_changed_byte_of_an_assertion_is_refused(name: str, position: int, change: int):
    answer = _MADE.get(REQUEST, sign_count=9)
    content = bytearray(unbase64url(answer["response"][name]))
    content[position % len(content)] ^= change
    answer["response"][name] = base64url(bytes(content))
    with pytest.raises((AnswerRefused, UserNotVerified)):
        verify_assertion(PARTY, CHALLENGE, _MADE_PASSKEY, read_assertion(answer))


@settings(max_examples=500, deadline=None)
@given(_BYTES, st.integers(0, 8), st.binary(max_size=8))
def test_a_damaged_attestation_raises_nothing_unforeseen(position: int, length: int, content: bytes):
    """Nothing signs a new key, so a damage that leaves another valid key is accepted."""
    answer = Authenticator().create(CREATION)
    damaged = bytearray(unbase64url(answer["response"]["attestationObject"]))
    start = position % len(damaged)
    damaged[start : start + length] = content
    answer["response"]["attestationObject"] = base64url(bytes(damaged))
    with suppress(AnswerRefused, UserNotVerified):
        verify_attestation(PARTY, CHALLENGE, read_attestation(answer))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.binary(max_size=40).map(base64url),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_CLIENT_DATA_KEYS = st.sampled_from(("type", "challenge", "origin", "crossOrigin", "tokenBinding", "more"))


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=200), st.dictionaries(_CLIENT_DATA_KEYS, _JSON), _JSON)
def test_arbitrary_answers_raise_nothing_unforeseen(content: bytes, client_data: dict[str, object], document: object):
    authenticator = Authenticator()
    parts: list[dict[str, Any]] = [
        {"attestation_object": content},
        {"raw_key": content},
        {"extra": content},
        {"auth_data": content},
        {"client_data": client_data},
        {"raw_client_data": json.dumps(document).encode()},
    ]
    for part in parts:
        with suppress(AnswerRefused, UserNotVerified):
            verify_attestation(PARTY, CHALLENGE, read_attestation(authenticator.create(CREATION, **part)))
        with suppress(AnswerRefused, UserNotVerified):
            asserted(_MADE, _MADE_PASSKEY, sign_count=9, **part)
    for read in (read_attestation, read_assertion):
        with suppress(CredentialUnreadable):
            read({"type": "public-key", "id": "AA", "response": document})
