"""Answers of sign-ins, as the tests compare them."""

from __future__ import annotations

from falcon import testing

from tests.api.world import World
from tests.identity.issuer import BODY, CORP


def code(answered: testing.Result) -> tuple[int, str]:
    """Return status and error code."""
    return answered.status_code, answered.json["error"]["code"]


def signed_in(world: World, answered: testing.Result) -> testing.TestClient:
    """Return a client with the session that a sign-in answered."""
    assert answered.status_code == 200, answered.text
    assert answered.headers["Cache-Control"] == "no-store"
    client = testing.TestClient(world.app, headers={"Authorization": f"Bearer {answered.json['token']}"})
    assert client.simulate_get("/api/v0/user").json["uuid"] == answered.json["user"]["uuid"]
    return client


def sign_in(world: World) -> testing.Result:
    return world.anonymous.simulate_post(CORP, json=BODY)


def refused(world: World) -> str:
    """Sign in, which must fail; return the message."""
    answered = sign_in(world)
    assert code(answered) == (502, "oauth_provider_error"), answered.text
    assert len(world.storage.users.all()) == 1
    message: str = answered.json["error"]["message"]
    assert "secret-of-the-client" not in message
    return message
