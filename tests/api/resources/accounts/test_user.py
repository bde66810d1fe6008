from __future__ import annotations

import pytest

from actors import EngineBusy
from storage import Role
from tests.api.world import Account, World


def test_the_caller_gets_its_own_record(ada: Account):
    answered = ada.client.simulate_get("/api/v0/user")

    assert answered.status_code == 200
    assert answered.json["email"] == "ada@example.org"
    assert answered.json["name"] == "Ada"
    assert answered.json["personal_org_slug"] == "ada-example-org"
    assert set(answered.json) == {"uuid", "email", "name", "personal_org_slug"}


def test_the_scheme_is_bearer_in_any_case(world: World, ada: Account):
    for scheme in ("bearer", "BEARER", "Bearer"):
        answered = world.anonymous.simulate_get("/api/v0/user", headers={"Authorization": f"{scheme} {ada.token}"})
        assert answered.status_code == 200

    for header in (f"Basic {ada.token}", ada.token, "Bearer", "Bearer ", "Bearer nonsense", f"Bearer {ada.token}x"):
        answered = world.anonymous.simulate_get("/api/v0/user", headers={"Authorization": header})
        assert answered.status_code == 401, header


def test_an_expired_key_is_refused(world: World, ada: Account):
    user = world.storage.users.by_email("ada@example.org")
    assert user is not None
    expiry = world.clock.now().replace(hour=4)
    _, token = world.storage.tokens.create_api_key(user.id, "short", expiry)
    headers = {"Authorization": f"Bearer {token}"}

    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 200
    world.clock.advance(3600)
    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 401


def test_the_name_may_be_changed(ada: Account):
    answered = ada.client.simulate_patch("/api/v0/user", json={"name": "Ada Lovelace", "email": "x@y.z"})

    assert answered.status_code == 200
    assert answered.json["name"] == "Ada Lovelace"
    assert answered.json == ada.client.simulate_get("/api/v0/user").json
    assert answered.json["email"] == "ada@example.org"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name: expected a value, the field is required"),
        ({"name": None}, "name: expected a string"),
        ({"name": " "}, "name: expected a string that is not blank"),
        ({"name": "x" * 256}, "name: expected at most 255 characters"),
    ],
)
def test_a_name_that_is_none_is_refused(ada: Account, body: object, message: str):
    answered = ada.client.simulate_patch("/api/v0/user", json=body)

    assert (answered.status_code, answered.json["error"]["code"]) == (422, "invalid_body")
    assert answered.json["error"]["message"] == message
    assert ada.client.simulate_get("/api/v0/user").json["name"] == "Ada"


def test_deleting_an_account_deletes_tokens_and_organizations(world: World, ada: Account, bob: Account):
    session = ada.signed_in()
    build = ada.pipeline(visibility="public").build()
    assert world.anonymous.simulate_get(build.path).status_code == 200

    answered = ada.client.simulate_delete("/api/v0/user")

    assert (answered.status_code, answered.content) == (204, b"")
    for client in (ada.client, session):
        assert client.simulate_get("/api/v0/user").status_code == 401
        assert client.simulate_delete("/api/v0/user").status_code == 401
    assert world.anonymous.simulate_get(build.path).status_code == 401
    assert bob.client.simulate_get(build.path).json["error"]["code"] == "organization_not_found"
    assert world.sign_up("ada@example.org").org == "ada-example-org-2"


def test_deleting_an_account_cancels_builds_of_a_busy_engine(world: World, ada: Account):
    """The storage has recorded the cancel, so the request does not wait for it."""

    builds = [ada.pipeline(name).build().stored for name in ("one", "two")]
    world.engine.refusal = EngineBusy("slow")

    assert ada.client.simulate_delete("/api/v0/user").status_code == 204

    assert world.engine.canceled == [build.id for build in builds]
    stored = [world.storage.builds.get(build.id) for build in builds]
    assert [build is not None and build.cancel_requested for build in stored] == [True, True]


def test_a_sole_owner_is_refused_with_the_organizations(ada: Account, bob: Account):
    bob.join(ada, Role.ADMIN)

    answered = ada.client.simulate_delete("/api/v0/user")

    assert (answered.status_code, answered.json["error"]["code"]) == (409, "sole_owner")
    assert "you are the only owner of ada-example-org, which other members use" in answered.json["error"]["message"]
    assert ada.client.simulate_get("/api/v0/user").status_code == 200
    assert bob.client.simulate_delete("/api/v0/user").status_code == 204
    assert ada.client.simulate_delete("/api/v0/user").status_code == 204
