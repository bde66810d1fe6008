"""ID tokens with one thing wrong: nobody is signed in, and no account is made."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.api.sign_in.answered import refused, sign_in
from tests.api.world import World
from tests.identity.issuer import (
    BODY,
    EC_KEY,
    ED_KEY,
    KEY,
    MISSING,
    OTHER_KEY,
    ScriptedIssuer,
    encoded,
    signed,
)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"aud": ["ci-daemon"]},
        {"aud": ["ci-daemon", "another"], "azp": "ci-daemon"},
        {"azp": "ci-daemon"},
        {"exp": 60},
        {"iat": 59},
        {"unknown": [None]},
    ],
)
def test_a_token_that_is_right_is_taken(world: World, issuer: ScriptedIssuer, told: dict[str, Any]):
    times = {name: issuer.now + seconds for name, seconds in told.items() if name in {"exp", "iat"}}
    issuer.claims |= told | times
    assert sign_in(world).json["user"]["email"] == "bea@example.org"


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("iss", MISSING),
        ("iss", "https://accounts.google.com"),
        ("iss", ""),
        ("iss", None),
        ("iss", ["http://127.0.0.1"]),
        ("sub", MISSING),
        ("sub", ""),
        ("sub", 1001),
        ("sub", None),
        ("sub", "1002"),
        ("sub", "1001 "),
        ("aud", MISSING),
        ("aud", "another"),
        ("aud", ""),
        ("aud", []),
        ("aud", ["another"]),
        ("aud", ["ci-daemon", "another"]),
        ("aud", {"ci-daemon": 1}),
        ("aud", "CI-DAEMON"),
        ("azp", "another"),
        ("azp", ["ci-daemon"]),
        ("exp", MISSING),
        ("exp", 0),
        ("exp", -1),
        ("exp", None),
        ("exp", "9999999999"),
        ("exp", True),
        ("exp", float("nan")),
        ("exp", float("inf")),
        ("iat", MISSING),
        ("iat", "now"),
        ("iat", 9999999999),
        ("iat", True),
        ("nbf", 9999999999),
        ("nonce", MISSING),
        ("nonce", ""),
        ("nonce", "another"),
        ("nonce", None),
        ("nonce", [BODY["nonce"]]),
        ("nonce", BODY["nonce"].upper()),
        ("at_hash", "bm90IHRoaXMgb25lISE"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(world: World, issuer: ScriptedIssuer, claim: str, value: object):
    issuer.claims[claim] = value
    refused(world)


def test_an_expired_token_is_refused(world: World, issuer: ScriptedIssuer):
    issuer.claims["exp"] = issuer.now - 60
    assert "expired" in refused(world)


def with_public_key_as_secret(claims: dict[str, Any]) -> str:
    secret = KEY.as_pem(private=False)
    start = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': 'ours'})}.{encoded(claims)}"
    return f"{start}.{encoded(hmac.digest(secret, start.encode(), 'sha256'))}"


def with_client_secret(claims: dict[str, Any]) -> str:
    key = OctKey.import_key("secret-of-the-client".ljust(32), {"kid": "ours"})
    return jwt.encode({"alg": "HS256", "kid": "ours"}, claims, key, algorithms=["HS256"])


def changed_after_signing(claims: dict[str, Any]) -> str:
    header, _, signature = signed({**claims, "sub": "1"}).split(".")
    return f"{header}.{encoded(claims)}.{signature}"


def short_of_signature(claims: dict[str, Any]) -> str:
    return signed(claims).rpartition(".")[0] + "."


@pytest.mark.parametrize(
    "sign",
    [
        lambda claims: f"{encoded({'alg': 'none'})}.{encoded(claims)}.",
        lambda claims: f"{encoded({'alg': 'None', 'kid': 'ours'})}.{encoded(claims)}.",
        with_public_key_as_secret,
        with_client_secret,
        changed_after_signing,
        short_of_signature,
        lambda claims: signed(claims, OTHER_KEY),
        lambda claims: signed(claims, OTHER_KEY, jwk=OTHER_KEY.as_dict(private=False)),
        lambda claims: signed(claims, OTHER_KEY, jku="http://127.0.0.1:1/jwks"),
        lambda claims: signed(claims, kid="unknown"),
        lambda claims: signed(claims, kid=MISSING),
        lambda claims: signed(claims, kid="ec"),
        lambda claims: jwt.encode({"alg": "RS384", "kid": "ours"}, claims, KEY, algorithms=["RS384"]),
        lambda claims: signed(claims).replace(".", "", 1),
        lambda claims: signed(claims) + ".a.b",
        lambda _: "",
        lambda _: "é.é.é",
        lambda _: 5,
        lambda _: None,
        lambda _: MISSING,
        lambda claims: [signed(claims)],
        lambda claims: signed(claims)[:-4] + "!!!!",
        lambda claims: f"{encoded(b'{')}.{encoded(claims)}.a",
        lambda claims: f"{encoded([])}.{encoded(claims)}.a",
        lambda claims: f"{encoded({'alg': ['RS256'], 'kid': 'ours'})}.{encoded(claims)}.a",
        lambda claims: f"{encoded({'alg': 'RS256', 'kid': ['ours']})}.{encoded(claims)}.a",
        lambda claims: f"{encoded(b'[' * 100_000)}.{encoded(claims)}.a",
    ],
)
def test_a_token_with_a_wrong_signature_is_refused(
    world: World, issuer: ScriptedIssuer, sign: Callable[[dict[str, Any]], object]
):
    issuer.sign = sign
    refused(world)


@pytest.mark.parametrize(("alg", "key"), [("ES256", EC_KEY), ("EdDSA", ED_KEY)])
def test_other_signatures_of_the_issuer_are_taken(world: World, issuer: ScriptedIssuer, alg: str, key: Any):
    issuer.sign = lambda claims: jwt.encode({"alg": alg, "kid": key.kid}, claims, key, algorithms=[alg])
    assert sign_in(world).status_code == 200


def test_a_signature_the_issuer_does_not_announce_is_refused(world: World, issuer: ScriptedIssuer):
    issuer.metadata["id_token_signing_alg_values_supported"] = ["RS256"]
    issuer.sign = lambda claims: signed(claims, EC_KEY, alg="ES256")
    refused(world)


def test_a_single_key_needs_no_name(world: World, issuer: ScriptedIssuer):
    issuer.keys = {"keys": [{**KEY.as_dict(private=False)}]}
    issuer.sign = lambda claims: signed(claims, kid=MISSING)
    assert sign_in(world).status_code == 200


@pytest.mark.parametrize(
    "keys",
    [
        [],
        {},
        {"keys": None},
        {"keys": []},
        {"keys": [None, 5, "ours", {}, {"kty": "RSA"}, {"kty": "RSA", "n": 5, "e": []}]},
        {"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "ours"}]},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "ours"}]},
        {"keys": [{**KEY.as_dict(private=False), "use": "enc"}]},
    ],
)
def test_without_a_usable_key_nobody_signs_in(world: World, issuer: ScriptedIssuer, keys: object):
    issuer.keys = keys
    refused(world)
