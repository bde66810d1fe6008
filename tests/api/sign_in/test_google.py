"""Signing in with Google, as its documentation says that it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api import HttpSettings, IdentitySettings, RateLimitSettings
from storage import Storage
from tests.api.sign_in.answered import code, signed_in
from tests.api.world import World
from tests.clock import ManualClock
from tests.identity.google import Google
from tests.identity.local_server import LocalServer

BODY = {"code": "4/good", "redirect_uri": "https://console.example.org/login/callback"}
GOOGLE = "/api/v0/auth/google"
GOOGLE_V2 = "/api/v2/auth/google"
VERIFIER = "a-verifier-of-at-least-43-characters-as-rfc-7636-says"


@pytest.fixture
def google(server: LocalServer) -> Google:
    return Google(server)


@pytest.fixture
def world(open_world: Callable[..., World], google: Google) -> World:
    return open_world(google=google.settings)


@pytest.mark.parametrize("path", [GOOGLE, GOOGLE_V2])
@pytest.mark.parametrize("verified", [True, "true"])
def test_a_person_gets_an_account(world: World, google: Google, path: str, verified: object):
    google.claims["email_verified"] = verified
    answered = world.anonymous.simulate_post(path, json=BODY)
    client = signed_in(world, answered)
    assert answered.json["user"]["email"] == "bea@example.org"
    (identity,) = client.simulate_get("/api/v0/user/identities").json["identities"]
    assert identity["provider"] == "google"


@pytest.mark.parametrize("verified", [False, "false", "True", "1", 1, None, [True], {}])
def test_what_is_not_true_does_not_verify(world: World, google: Google, verified: object):
    google.claims |= {"email": "owner@example.org", "email_verified": verified}
    assert code(world.anonymous.simulate_post(GOOGLE, json=BODY)) == (502, "oauth_provider_error")
    (owner,) = world.storage.users.all()
    assert world.storage.identities.of_user(owner.id) == []


@pytest.mark.parametrize("sub", [None, "", 110169484474386276334, "a" * 256, "a\nb", "é", ["1"]])
def test_a_person_without_a_subject_is_nobody(world: World, google: Google, sub: object):
    google.claims["sub"] = sub
    assert code(world.anonymous.simulate_post(GOOGLE, json=BODY)) == (502, "oauth_provider_error")


@pytest.mark.parametrize("path", [GOOGLE, GOOGLE_V2])
def test_a_refused_code_is_told(world: World, path: str):
    refused = world.anonymous.simulate_post(path, json={**BODY, "code": "4/bad"})
    assert code(refused) == (502, "oauth_provider_error")
    assert refused.json["error"]["message"] == "Google: the provider refuses the code: invalid_grant"


@pytest.mark.parametrize("path", [GOOGLE, GOOGLE_V2])
def test_who_may_not_sign_up_gets_no_account(open_world: Callable[..., World], google: Google, path: str):
    world = open_world(google=google.settings, signup="closed")
    assert code(world.anonymous.simulate_post(path, json=BODY)) == (403, "signup_closed")
    assert len(world.storage.users.all()) == 1


def test_a_verifier_is_sent_on(world: World, google: Google):
    assert world.anonymous.simulate_post(GOOGLE, json={**BODY, "code_verifier": VERIFIER}).status_code == 200
    assert google.server.seen[0].form["code_verifier"] == VERIFIER


def test_an_identity_can_be_deleted_but_the_last(world: World, google: Google):
    client = signed_in(world, world.anonymous.simulate_post(GOOGLE, json=BODY))
    google.claims["sub"] = "another"
    world.anonymous.simulate_post(GOOGLE, json=BODY)
    first, second = client.simulate_get("/api/v0/user/identities").json["identities"]
    stranger = world.sign_up("eve@example.org").client
    path = "/api/v0/user/identities/{}".format
    assert code(stranger.simulate_delete(path(first["id"]))) == (404, "identity_not_found")
    assert code(client.simulate_delete(path("0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"))) == (404, "identity_not_found")
    assert client.simulate_delete(path(first["id"])).status_code == 204
    world.engine.sends_mail = False
    assert code(client.simulate_delete(path(second["id"]))) == (409, "identity_last_credential")
    assert client.simulate_get("/api/v0/user/identities").json["identities"] == [second]
    world.engine.sends_mail = True
    assert client.simulate_delete(path(second["id"])).status_code == 204


@pytest.mark.parametrize("path", [GOOGLE, GOOGLE_V2, "/api/v0/auth/github", "/api/v0/auth/oidc/corp"])
def test_what_is_not_configured_is_told(open_world: Callable[..., World], path: str):
    refused = open_world().anonymous.simulate_post(path, json={**BODY, "nonce": "n"})
    assert code(refused) == (503, "oauth_not_configured")


def test_without_providers_the_list_is_empty(open_world: Callable[..., World]):
    assert open_world().anonymous.simulate_get("/api/v0/auth/providers").json == {"providers": []}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": "4/good"},
        {**BODY, "code": ""},
        {**BODY, "code": " "},
        {**BODY, "code": "a" * 4097},
        {**BODY, "code": 5},
        {**BODY, "redirect_uri": ""},
        {**BODY, "redirect_uri": "https://ci.example.org/\nHost: evil"},
        {**BODY, "redirect_uri": "a" * 2049},
        {**BODY, "code_verifier": "short"},
        {**BODY, "code_verifier": VERIFIER + "\n"},
        {**BODY, "owner_token": "a" * 256},
    ],
)
def test_a_body_is_checked_before_anything_happens(world: World, google: Google, body: dict[str, Any]):
    assert code(world.anonymous.simulate_post(GOOGLE, json=body)) == (422, "invalid_body")
    assert google.server.seen == []


def test_sign_ins_are_in_the_audit(world: World):
    world.anonymous.simulate_post(GOOGLE, json=BODY)
    world.anonymous.simulate_post(GOOGLE, json={**BODY, "redirect_uri": "https://evil.example.net/"})
    refused, made = world.storage.audit.page(2, None).rows
    assert (made.actor, made.action) == ("bea@example.org", "authGoogle")
    assert (refused.actor, refused.action) == ("nobody", "authGoogle")
    assert refused.note.startswith("refused, ")


def test_sign_ins_are_limited_by_address_and_account(
    storage: Storage, clock: ManualClock, settings: HttpSettings, google: Google
):
    identity = IdentitySettings(signup="open", google=google.settings)
    limits = RateLimitSettings(account_per_minute=2, address_per_minute=5)
    world = World.create(storage, clock, settings, limits, identity=identity)
    world.sign_up("owner@example.org")
    assert [world.anonymous.simulate_post(GOOGLE, json=BODY).status_code for _ in range(3)] == [200, 200, 429]
    google.claims |= {"sub": "2", "email": "another@example.org"}
    assert [world.anonymous.simulate_post(GOOGLE, json=BODY).status_code for _ in range(3)] == [200, 200, 429]
    assert len(google.server.seen) == 10
