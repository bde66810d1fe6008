from __future__ import annotations

from tests.api.world import Account, World


def test_the_caller_is_told_who_it_is(ada: Account):
    answered = ada.client.simulate_get("/api/v0/user")

    assert answered.status_code == 200
    assert answered.json["email"] == "ada@example.org"
    assert answered.json["name"] == "Ada"
    assert answered.json["personal_org_slug"] == "ada-example-org"
    assert set(answered.json) == {"uuid", "email", "name", "personal_org_slug"}


def test_without_a_token_nobody_is_told_anything(world: World):
    answered = world.anonymous.simulate_get("/api/v0/user")

    assert answered.status_code == 401
    assert answered.json["error"]["code"] == "unauthorized"
    assert answered.headers["WWW-Authenticate"] == "Bearer"


def test_the_scheme_is_bearer_in_any_case(world: World, ada: Account):
    for scheme in ("bearer", "BEARER", "Bearer"):
        answered = world.anonymous.simulate_get("/api/v0/user", headers={"Authorization": f"{scheme} {ada.token}"})
        assert answered.status_code == 200

    for header in (f"Basic {ada.token}", ada.token, "Bearer", "Bearer ", "Bearer nonsense", f"Bearer {ada.token}x"):
        answered = world.anonymous.simulate_get("/api/v0/user", headers={"Authorization": header})
        assert answered.status_code == 401, header


def test_an_expired_key_is_no_key(world: World, ada: Account):
    user = world.storage.users.by_email("ada@example.org")
    assert user is not None
    expiry = world.clock.now().replace(hour=4)
    _, token = world.storage.tokens.create_api_key(user.id, "short", expiry)
    headers = {"Authorization": f"Bearer {token}"}

    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 200
    world.clock.turn(3600)
    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 401
