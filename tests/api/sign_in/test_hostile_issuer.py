"""Issuers that lie, are slow, or answer garbage: nobody is signed in, and no account is made."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.sign_in.answered import code, refused, sign_in
from tests.api.world import World
from tests.clock import ManualClock
from tests.identity.issuer import BODY, CORP, MISSING, ScriptedIssuer, signed
from tests.identity.local_server import LocalServer, Reply, local_server


def test_an_unknown_key_makes_one_request_in_ten_seconds(world: World, issuer: ScriptedIssuer, clock: ManualClock):
    assert sign_in(world).status_code == 200
    clock.advance(10)
    issuer.sign = lambda claims: signed(claims, kid="unknown")
    for _ in range(5):
        assert code(sign_in(world)) == (502, "oauth_provider_error")
    assert issuer.asked("/jwks") == 2
    assert issuer.asked("/.well-known/openid-configuration") == 1


def test_documents_are_kept_for_an_hour(world: World, issuer: ScriptedIssuer, clock: ManualClock):
    for seconds, documents in ((0, 1), (3599, 1), (1, 2)):
        clock.advance(seconds)
        issuer.claims |= {"exp": issuer.now + 9000}
        assert sign_in(world).status_code == 200
        assert (issuer.asked("/jwks"), issuer.asked("/.well-known/openid-configuration")) == (documents, documents)


@pytest.mark.parametrize(
    "info",
    [
        {"sub": "1002"},
        {"sub": MISSING},
        {"sub": None},
        {"email": "owner@example.org", "email_verified": False},
        {"email": "owner@example.org", "email_verified": MISSING},
        {"email": "owner@example.org", "email_verified": "yes"},
        {"email": ["owner@example.org"]},
        {"email": "owner@example.org, bea@example.org"},
        {"email": MISSING},
    ],
)
def test_wrong_user_info_signs_nobody_in(world: World, issuer: ScriptedIssuer, info: dict[str, Any]):
    issuer.info = {name: value for name, value in (issuer.info | info).items() if value is not MISSING}
    refused(world)


def test_a_verification_is_only_of_the_address_beside_it(world: World, issuer: ScriptedIssuer):
    """Neither the token's ``email_verified`` with user-info's address, nor the other way round."""
    issuer.claims |= {"email": "bea@example.org", "email_verified": True}
    issuer.info = {"sub": "1001", "email": "owner@example.org"}
    refused(world)
    issuer.claims |= {"email": "owner@example.org", "email_verified": False}
    issuer.info = {"sub": "1001", "email_verified": True}
    refused(world)


def test_user_info_may_leave_the_verification_to_the_token(world: World, issuer: ScriptedIssuer):
    """As Forgejo and Gitea do; a word of user-info's own counts more."""
    issuer.claims |= {"email": "bea@example.org", "email_verified": True}
    issuer.info = {"sub": "1001", "email": "bea@example.org", "email_verified": False}
    refused(world)
    del issuer.info["email_verified"]
    assert sign_in(world).json["user"]["email"] == "bea@example.org"


def test_without_user_info_the_token_is_enough(world: World, issuer: ScriptedIssuer):
    del issuer.metadata["userinfo_endpoint"]
    issuer.claims |= {"email": "bea@example.org", "email_verified": True}
    assert sign_in(world).json["user"] | {"uuid": ""} == {"uuid": "", "email": "bea@example.org", "name": "bea"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("issuer", MISSING),
        ("issuer", "https://accounts.google.com"),
        ("issuer", None),
        ("token_endpoint", MISSING),
        ("token_endpoint", 5),
        ("token_endpoint", "http://198.51.100.7/token"),
        ("token_endpoint", "http://localhost.evil.example.net/token"),
        ("token_endpoint", "http://127.0.0.1@evil.example.net/token"),
        ("token_endpoint", "file:///etc/passwd"),
        ("token_endpoint", "http://[::1"),
        ("authorization_endpoint", "javascript:alert(1)"),
        ("authorization_endpoint", "http://evil.example.net/"),
        ("jwks_uri", "http://169.254.169.254/latest/meta-data/"),
        ("jwks_uri", ""),
        ("userinfo_endpoint", "http://10.0.0.1/"),
        ("id_token_signing_alg_values_supported", "RS256"),
        ("id_token_signing_alg_values_supported", ["HS256", "none"]),
        ("code_challenge_methods_supported", 5),
    ],
)
def test_a_wrong_discovery_document_is_refused(world: World, issuer: ScriptedIssuer, key: str, value: object):
    issuer.metadata[key] = value
    if value is MISSING:
        del issuer.metadata[key]
    refused(world)


def test_pkce_is_asked_of_pages_where_the_issuer_has_it(world: World, issuer: ScriptedIssuer):
    del issuer.metadata["code_challenge_methods_supported"]
    body = {key: value for key, value in BODY.items() if key != "code_verifier"}
    assert world.anonymous.simulate_post(CORP, json=body).status_code == 200
    (listed,) = world.anonymous.simulate_get("/api/v0/auth/providers").json["providers"]
    assert (listed["pkce"], listed["nonce"]) == (False, True)


PATHS = ("/.well-known/openid-configuration", "/token", "/jwks", "/me")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "reply",
    [
        Reply({}, 500),
        Reply(b"<html>"),
        Reply(b""),
        Reply(b"[]"),
        Reply(b"null"),
        Reply(b"\xff\xfe"),
        Reply(b"[" * 100_000),
        Reply(b'{"a":' * 50_000),
        Reply(b" " * 600_000),
        Reply({}, 302, {"Location": "http://127.0.0.1:1/"}),
        Reply({"error": {"a": ["\n" * 1000]}}, 400),
        Reply({"access_token": "a\r\nX-Injected: 1", "token_type": "Bearer", "id_token": "a"}),
        Reply({"access_token": "a", "token_type": "mac", "id_token": "a"}),
        Reply({"access_token": "a", "token_type": "Bearer", "expires_in": ["x"]}),
        Reply({"access_token": {}, "token_type": 5}),
        Reply(base64.b64decode("H4sIAAAAAAACA6uuBQBDv6ajAgAAAA=="), headers={"Content-Encoding": "gzip"}),
    ],
    ids=range(16),
)
def test_garbage_signs_nobody_in(world: World, issuer: ScriptedIssuer, path: str, reply: Reply):
    issuer.server.answers[path] = lambda _: reply
    refused(world)


def test_an_answer_that_is_too_long_is_refused(world: World, issuer: ScriptedIssuer):
    """Although it is right."""
    content = json.dumps(issuer.info).encode() + b" " * 2**19
    issuer.server.answers["/me"] = lambda _: Reply(content)
    assert "more than" in refused(world)


@pytest.mark.parametrize("path", PATHS)
def test_a_redirect_is_not_followed(world: World, issuer: ScriptedIssuer, path: str):
    """Else the secret, a code or a token would go where the provider says."""
    target = f"{issuer.server.url}/elsewhere"
    issuer.server.answers[path] = lambda _: Reply({}, 307, {"Location": target})
    refused(world)
    assert issuer.asked("/elsewhere") == 0


@pytest.mark.parametrize("key", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
def test_an_issuer_sends_the_service_to_no_private_host(
    open_world: Callable[..., World], issuer: ScriptedIssuer, key: str
):
    """Here another name of the loopback than the issuer's own, which the owner has written down."""
    issuer.metadata[key] = issuer.metadata[key].replace("127.0.0.1", "localhost")
    path = urlsplit(issuer.metadata[key]).path
    told = refused(open_world(oidc={"corp": issuer.settings}))
    assert "localhost, which the provider names, has no public address" in told
    assert issuer.asked(path) == 0


def test_an_issuers_endpoints_may_be_where_the_owner_allows(open_world: Callable[..., World], issuer: ScriptedIssuer):
    for key in ("token_endpoint", "jwks_uri", "userinfo_endpoint"):
        issuer.metadata[key] = issuer.metadata[key].replace("127.0.0.1", "localhost")
    world = open_world(oidc={"corp": issuer.settings}, networks=("127.0.0.0/8", "::1/128"))
    assert sign_in(world).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_slow_drip_ends_by_the_deadline(open_world: Callable[..., World], issuer: ScriptedIssuer, path: str):
    """A time-out of each read alone would never end it."""
    world = open_world(oidc={"corp": issuer.settings}, provider_timeout=0.5)
    issuer.server.slow.add(path)
    start = time.monotonic()
    assert "in time" in refused(world)
    assert time.monotonic() - start < 10


def test_no_more_sign_ins_wait_than_there_is_room_for(open_world: Callable[..., World], issuer: ScriptedIssuer):
    """A provider that hangs takes no thread from the other endpoints."""
    world = open_world(oidc={"corp": issuer.settings}, provider_timeout=2.0)
    issuer.server.slow.add("/token")
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(lambda _: code(sign_in(world)), range(40)))
    assert set(answers) == {(502, "oauth_provider_error"), (503, "busy")}


def test_an_answer_for_another_issuer_is_refused(
    open_world: Callable[..., World], server: LocalServer, clock: ManualClock
):
    """The mix-up: a code and a token of one issuer do not pass for those of another."""
    with local_server() as second:
        honest, other = (ScriptedIssuer(each, int(clock.now().timestamp())) for each in (server, second))
        world = open_world(oidc={"corp": honest.settings, "other": other.settings})
        honest.claims["iss"] = other.server.url
        refused(world)
        honest.claims["iss"] = honest.server.url
        first = sign_in(world).json["user"]
        other.info["email"] = "eve@example.org"
        second_user = world.anonymous.simulate_post("/api/v0/auth/oidc/other", json=BODY).json["user"]
        assert (first["email"], second_user["email"]) == ("bea@example.org", "eve@example.org")
