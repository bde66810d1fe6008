"""Signing in with GitHub, as its documentation says that it answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.sign_in.answered import code, signed_in
from tests.api.world import World
from tests.identity.github import Github, address
from tests.identity.local_server import LocalServer

BODY = {"code": "good", "redirect_uri": "https://ci.example.org/login/callback"}
GITHUB = "/api/v0/auth/github"


@pytest.fixture
def github(server: LocalServer) -> Github:
    return Github(server)


@pytest.fixture
def world(open_world: Callable[..., World], github: Github) -> World:
    return open_world(github=github.settings)


def test_a_person_gets_an_account_by_the_primary_address(world: World, github: Github):
    answered = world.anonymous.simulate_post(GITHUB, json=BODY)
    client = signed_in(world, answered)
    assert answered.json["user"] | {"uuid": ""} == {"uuid": "", "email": "bea@example.org", "name": "Bea"}
    (identity,) = client.simulate_get("/api/v0/user/identities").json["identities"]
    assert (identity["provider"], identity["email"]) == ("github", "bea@example.org")
    assert world.anonymous.simulate_post(GITHUB, json=BODY).json["user"] == answered.json["user"]


def test_who_may_not_sign_up_gets_no_account(open_world: Callable[..., World], github: Github):
    world = open_world(github=github.settings, signup="invited")
    assert code(world.anonymous.simulate_post(GITHUB, json=BODY)) == (403, "signup_closed")
    assert len(world.storage.users.all()) == 1


def test_a_new_address_leads_to_the_same_account(world: World, github: Github):
    first = world.anonymous.simulate_post(GITHUB, json=BODY).json["user"]
    github.emails = [address("owner@example.org", primary=True)]
    assert world.anonymous.simulate_post(GITHUB, json=BODY).json["user"] == first
    github.emails = []
    assert world.anonymous.simulate_post(GITHUB, json=BODY).json["user"] == first


@pytest.mark.parametrize(
    "emails",
    [
        [],
        {},
        None,
        ["bea@example.org"],
        [address("owner@example.org", primary=True, verified=False)],
        [{"email": "owner@example.org", "primary": True}],
        [{"email": "owner@example.org", "primary": True, "verified": "true"}],
        [{"email": "owner@example.org", "primary": True, "verified": 1}],
        [{"primary": True, "verified": True}],
        [address("not an address", primary=True)],
        [address("owner@example.org\r\nBcc: eve@example.net", primary=True)],
        [address("ow\u212aner@example.org", primary=True)],
    ],
)
def test_without_a_verified_address_there_is_no_account(world: World, github: Github, emails: object):
    """The profile's own address proves nothing."""
    github.emails = emails
    github.user["email"] = "owner@example.org"
    assert code(world.anonymous.simulate_post(GITHUB, json=BODY)) == (502, "oauth_provider_error")
    (owner,) = world.storage.users.all()
    assert world.storage.identities.of_user(owner.id) == []


def test_another_verified_address_stands_in_for_the_primary(world: World, github: Github):
    github.emails = [address("a@example.org", primary=True, verified=False), address("b@example.org")]
    assert world.anonymous.simulate_post(GITHUB, json=BODY).json["user"]["email"] == "b@example.org"


@pytest.mark.parametrize("name", [None, "", "  \n", 5])
def test_who_has_no_name_gets_that_of_the_address(world: World, github: Github, name: object):
    github.user["name"] = name
    assert world.anonymous.simulate_post(GITHUB, json=BODY).json["user"]["name"] == "bea"


def test_a_name_is_kept_without_control_characters(world: World, github: Github):
    github.user["name"] = "Bea\x00\x1b[31m\u2028" + "x" * 300
    name = world.anonymous.simulate_post(GITHUB, json=BODY).json["user"]["name"]
    assert name == ("Bea [31m " + "x" * 300)[:255]


@pytest.mark.parametrize("user", [[], None, {}, {"id": None}, {"id": "583231"}, {"id": True}, {"id": 0}, {"id": 1.5}])
def test_a_user_without_an_id_is_nobody(world: World, github: Github, user: object):
    github.user = user
    assert code(world.anonymous.simulate_post(GITHUB, json=BODY)) == (502, "oauth_provider_error")


def test_a_refusal_with_status_200_is_a_refusal(world: World):
    refused = world.anonymous.simulate_post(GITHUB, json={**BODY, "code": "bad"})
    assert code(refused) == (502, "oauth_provider_error")
    assert refused.json["error"]["message"] == "GitHub: the provider refuses the code: bad_verification_code"


def test_the_page_is_listed_with_its_scopes(world: World, github: Github):
    (listed,) = world.anonymous.simulate_get("/api/v0/auth/providers").json["providers"]
    assert listed == {
        "name": "github",
        "kind": "github",
        "title": "GitHub",
        "authorize_url": "https://github.com/login/oauth/authorize",
        "client_id": "Iv1.8a61f9b3",
        "scopes": ["read:user", "user:email"],
        "pkce": True,
        "nonce": False,
        "path": GITHUB,
    }
    assert github.server.seen == []
