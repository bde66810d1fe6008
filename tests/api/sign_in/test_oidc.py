"""Signing in with a real OpenID Connect issuer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from falcon import testing

from api import HttpSettings, IdentitySettings
from api.sign_in.providers.settings import OidcSettings
from storage import SignInLinkKind, Storage
from tests.api.sign_in.answered import code, signed_in
from tests.api.sign_in.real_issuer import CLIENT, OTHER_CLIENT, Issuer, Step, running_issuer, signing_key
from tests.api.world import World
from tests.clock import ManualClock

PEOPLE = {
    "bea": {"email": "Bea@Example.org", "email_verified": True, "name": "Bea"},
    "mute": {"email": "mute@example.org", "email_verified": True},
    "eve": {"email": "owner@example.org", "email_verified": False, "name": "Eve"},
    "boss": {"email": "owner@example.org", "email_verified": True, "name": "The owner"},
    "nobody": {"name": "Nobody"},
}
CORP = "/api/v0/auth/oidc/corp"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer(PEOPLE) as issuer:
        yield issuer


def corp(issuer: Issuer, **others: Any) -> dict[str, OidcSettings]:
    """Return the configuration of one issuer."""
    return {"corp": OidcSettings(**{"issuer": issuer.url, **credentials(CLIENT), **others})}


def credentials(client: dict[str, Any]) -> dict[str, str]:
    return {key: client[key] for key in ("client_id", "client_secret")}


@pytest.fixture
def world(open_world: Callable[..., World], issuer: Issuer) -> World:
    return open_world(oidc=corp(issuer, title="The corporation"))


def sign_in(world: World, issuer: Issuer, subject: str, **others: str) -> testing.Result:
    step = Step()
    return world.anonymous.simulate_post(CORP, json=step.body(issuer.sign_in(subject, step), **others))


def test_a_new_person_gets_an_account_and_comes_back(world: World, issuer: Issuer):
    first = sign_in(world, issuer, "bea")
    client = signed_in(world, first)
    assert first.json["user"] | {"uuid": ""} == {"uuid": "", "email": "bea@example.org", "name": "Bea"}
    assert client.simulate_get("/api/v0/user").json["personal_org_slug"] == "bea-example-org"
    (identity,) = client.simulate_get("/api/v0/user/identities").json["identities"]
    assert (identity["provider"], identity["email"]) == ("corp", "bea@example.org")
    assert sign_in(world, issuer, "bea").json["user"] == first.json["user"]


def test_a_person_without_a_name_gets_that_of_the_address(world: World, issuer: Issuer):
    assert sign_in(world, issuer, "mute").json["user"]["name"] == "mute"


def test_a_verified_address_leads_to_its_account(world: World, issuer: Issuer):
    assert sign_in(world, issuer, "boss").json["user"]["name"] == "Owner"
    assert len(world.storage.users.all()) == 1


@pytest.mark.parametrize("subject", ["eve", "nobody"])
def test_an_unverified_address_leads_nowhere(world: World, issuer: Issuer, subject: str):
    refused = sign_in(world, issuer, subject)
    assert code(refused) == (502, "oauth_provider_error")
    assert "no e-mail address that it verified" in refused.json["error"]["message"]
    (owner,) = world.storage.users.all()
    assert world.storage.identities.of_user(owner.id) == []


def test_a_code_is_good_once(world: World, issuer: Issuer):
    step = Step()
    body = step.body(issuer.sign_in("bea", step))
    assert world.anonymous.simulate_post(CORP, json=body).status_code == 200
    again = world.anonymous.simulate_post(CORP, json=body)
    assert code(again) == (502, "oauth_provider_error")
    assert "invalid_grant" in again.json["error"]["message"]


@pytest.mark.parametrize(
    "others",
    [
        {"nonce": "another-nonce-than-of-this-person"},
        {"code_verifier": "another-verifier-than-of-this-person-43-chars"},
        {"code": "made-up"},
        {"redirect_uri": "https://ci.example.org/login/another"},
        {"redirect_uri": "https://console.example.org/login/callback"},
    ],
)
def test_a_code_is_good_only_with_what_its_page_made(world: World, issuer: Issuer, others: dict[str, str]):
    step = Step()
    body = {**step.body(issuer.sign_in("bea", step)), **others}
    assert code(world.anonymous.simulate_post(CORP, json=body)) == (502, "oauth_provider_error")
    assert len(world.storage.users.all()) == 1


@pytest.mark.parametrize(("field", "message"), [("nonce", "nonce: "), ("code_verifier", "code_verifier: ")])
def test_a_page_must_send_its_proofs(world: World, issuer: Issuer, field: str, message: str):
    """Else an attacker who got hold of a code could leave them out. The code stays good for the page."""
    step = Step()
    body = step.body(issuer.sign_in("bea", step))
    refused = world.anonymous.simulate_post(CORP, json={key: body[key] for key in body if key != field})
    assert code(refused) == (422, "invalid_body")
    assert refused.json["error"]["message"].startswith(message)
    assert world.anonymous.simulate_post(CORP, json=body).status_code == 200


def test_a_code_of_another_client_is_refused(world: World, issuer: Issuer):
    step = Step(client_id=OTHER_CLIENT["client_id"])
    body = step.body(issuer.sign_in("bea", step))
    assert code(world.anonymous.simulate_post(CORP, json=body)) == (502, "oauth_provider_error")


def test_an_expired_code_is_refused(open_world: Callable[..., World]):
    with running_issuer(PEOPLE) as issuer:
        world, step = open_world(oidc=corp(issuer)), Step()
        body = step.body(issuer.sign_in("bea", step))
        issuer.advance(3600)
        assert code(world.anonymous.simulate_post(CORP, json=body)) == (502, "oauth_provider_error")


def test_a_wrong_client_secret_is_told(open_world: Callable[..., World], issuer: Issuer):
    world = open_world(oidc=corp(issuer, client_secret="wrong"))
    refused = sign_in(world, issuer, "bea")
    assert code(refused) == (502, "oauth_provider_error")
    assert "invalid_client" in refused.json["error"]["message"]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_the_client_may_be_registered_for_either_method(open_world: Callable[..., World], method: str):
    with running_issuer(PEOPLE, [{**CLIENT, "token_endpoint_auth_method": method}]) as issuer:
        assert sign_in(open_world(oidc=corp(issuer)), issuer, "bea").status_code == 200


def test_new_keys_of_the_issuer_are_taken(open_world: Callable[..., World], clock: ManualClock):
    """They are fetched when a token names an unknown one, though not more often than each ten seconds."""
    with ExitStack() as stack:
        issuer = stack.enter_context(running_issuer(PEOPLE))
        world = open_world(oidc=corp(issuer))
        assert sign_in(world, issuer, "bea").status_code == 200
        stack.close()
        rotated = stack.enter_context(running_issuer(PEOPLE, keys=[signing_key()], port=int(issuer.url[17:])))
        assert code(sign_in(world, rotated, "bea")) == (502, "oauth_provider_error")
        clock.advance(10)
        assert sign_in(world, rotated, "bea").status_code == 200


def test_an_issuer_that_is_away_is_told(open_world: Callable[..., World], clock: ManualClock):
    with ExitStack() as stack:
        issuer = stack.enter_context(running_issuer(PEOPLE))
        world, step = open_world(oidc=corp(issuer)), Step()
        body = step.body(issuer.sign_in("bea", step))
        stack.close()
        assert code(world.anonymous.simulate_post(CORP, json=body)) == (502, "oauth_provider_error")
        listed = world.anonymous.simulate_get("/api/v0/auth/providers").json["providers"]
        assert [each["authorize_url"] for each in listed] == [None]
        issuer = stack.enter_context(running_issuer(PEOPLE, port=int(issuer.url[17:])))
        clock.advance(10)
        assert sign_in(world, issuer, "bea").status_code == 200


def test_the_list_has_what_a_page_needs(world: World, issuer: Issuer):
    assert world.anonymous.simulate_get("/api/v0/auth/providers").json == {
        "providers": [
            {
                "name": "corp",
                "kind": "oidc",
                "title": "The corporation",
                "authorize_url": f"{issuer.url}/auth",
                "client_id": "ci-daemon",
                "scopes": ["openid", "email", "profile"],
                "pkce": True,
                "nonce": True,
                "path": CORP,
            }
        ]
    }


@pytest.mark.parametrize("signup", ["closed", "invited"])
def test_who_may_not_sign_up_gets_no_account(open_world: Callable[..., World], issuer: Issuer, signup: str):
    world = open_world(oidc=corp(issuer), signup=signup)
    assert code(sign_in(world, issuer, "bea")) == (403, "signup_closed")
    assert sign_in(world, issuer, "boss").status_code == 200
    assert len(world.storage.users.all()) == 1


def test_the_owners_link_makes_an_account(open_world: Callable[..., World], issuer: Issuer):
    world = open_world(oidc=corp(issuer), signup="closed")
    token = world.storage.sign_in_links.owner()
    assert code(sign_in(world, issuer, "bea", owner_token="unknown")) == (403, "signup_closed")
    assert sign_in(world, issuer, "bea", owner_token=token).status_code == 200
    assert world.storage.sign_in_links.read(SignInLinkKind.OWNER, token) is None
    assert code(sign_in(world, issuer, "mute", owner_token=token)) == (403, "signup_closed")


def test_twenty_sign_ins_of_a_new_person_make_one_account(world: World, issuer: Issuer):
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: sign_in(world, issuer, "bea"), range(20)))
    assert [each.status_code for each in answers] == [200] * 20
    assert len({each.json["user"]["uuid"] for each in answers}) == 1
    assert len(world.storage.users.all()) == 2


def test_of_twenty_with_one_code_at_most_one_gets_a_session(world: World, issuer: Issuer):
    """An issuer that sees a code twice may revoke what it gave for it before the first has used it."""
    step = Step()
    body = step.body(issuer.sign_in("bea", step))
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: world.anonymous.simulate_post(CORP, json=body), range(20)))
    assert sorted(each.status_code for each in answers)[1:] == [502] * 19


def test_an_unknown_name_is_not_configured(world: World):
    for name in ("another", "CORP", "google", "%2e%2e"):
        refused = world.anonymous.simulate_post(f"/api/v0/auth/oidc/{name}", json=Step().body("code"))
        assert code(refused) == (503, "oauth_not_configured")


def test_an_issuer_under_the_name_of_another_is_another(
    storage: Storage, clock: ManualClock, settings: HttpSettings, open_world: Callable[..., World]
):
    """A subject of the former issuer leads nowhere."""
    with running_issuer({"1": PEOPLE["bea"]}) as former:
        bea = sign_in(open_world(oidc=corp(former)), former, "1").json["user"]
    with running_issuer({"1": {"email": "eve@example.org", "email_verified": True}}) as other:
        identity = IdentitySettings(signup="open", oidc=corp(other))
        world = World.create(storage, clock, settings, identity=identity)
        assert sign_in(world, other, "1").json["user"]["uuid"] != bea["uuid"]
