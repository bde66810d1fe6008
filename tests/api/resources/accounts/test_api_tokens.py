from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest

from tests.api.world import Account, World

TOKENS = "/api/v0/user/api-tokens"
NO_TIME = "expected an ISO 8601 time with an offset, such as 2026-01-01T00:00:00Z"


def _made(account: Account, **fields: Any) -> Any:
    answered = account.signed_in().simulate_post(TOKENS, json={"description": "laptop", **fields})
    assert answered.status_code == 201, answered.text
    return answered.json


def test_a_new_key_is_shown_once_and_is_a_credential(world: World, ada: Account):
    answered = ada.signed_in().simulate_post(TOKENS, json={"description": "laptop"})

    assert answered.status_code == 201
    assert answered.headers["Cache-Control"] == "no-store"
    assert set(answered.json) == {"api_token", "token"}
    token, record = answered.json["token"], answered.json["api_token"]
    assert re.fullmatch(r"ci_[A-Za-z0-9_-]{43}", token)
    limits = {"scopes", "only", "budget_cents", "spent_cents"}
    assert set(record) == {"id", "description", "created_at", "expires_at", "last_used_at", *limits}
    assert (record["description"], record["expires_at"], record["last_used_at"]) == ("laptop", None, None)
    used = world.anonymous.simulate_get("/api/v0/user", headers={"Authorization": f"Bearer {token}"})
    assert used.json["email"] == ada.email
    listed = ada.client.simulate_get(TOKENS)
    assert token not in listed.text


def test_the_list_is_of_the_callers_keys_newest_first(ada: Account, bob: Account):
    _made(bob, description="of another")
    made = [_made(ada, description=name)["api_token"]["id"] for name in ("one", "two")]

    listed = ada.client.simulate_get(TOKENS)

    assert listed.status_code == 200
    assert set(listed.json) == {"api_tokens"}
    assert [key["description"] for key in listed.json["api_tokens"]] == ["two", "one", "tests"]
    assert [key["id"] for key in listed.json["api_tokens"]][:2] == made[::-1]
    assert listed.json["api_tokens"][2]["last_used_at"] == "2026-01-02T03:04:05.000000Z"


def test_a_key_ends_when_it_says(world: World, ada: Account):
    made = _made(ada, expires_at="2026-01-02T04:05:06+01:00")
    assert made["api_token"]["expires_at"] == "2026-01-02T03:05:06.000000Z"
    headers = {"Authorization": f"Bearer {made['token']}"}
    world.clock.advance(60)
    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 200
    world.clock.advance(1)
    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 401


def test_an_api_key_makes_no_api_key(ada: Account):
    for body in ({"description": "another"}, {}):
        answered = ada.client.simulate_post(TOKENS, json=body)
        assert answered.status_code == 403
        assert answered.json["error"]["code"] == "session_required"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"description": None}, "description: expected a string"),
        ({"description": " "}, "description: expected a string that is not blank"),
        ({"description": "a" * 10_001}, "description: expected at most 10000 characters"),
        ({"expires_at": "2026-01-02T03:04:05Z"}, "expires_at: expected a time in the future"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at: expected a time in the future"),
        *(
            (
                {"expires_at": wrong},
                "expires_at: expected an ISO 8601 time with an offset, such as 2026-01-01T00:00:00Z",
            )
            for wrong in ("tomorrow", "", "2030-01-01", "2030-01-01T00:00:00", "9999-12-31T23:59:59-01:00", 1e12, True)
        ),
    ],
)
def test_a_wrong_body_makes_no_key(ada: Account, fields: dict[str, object], message: str):
    answered = ada.signed_in().simulate_post(TOKENS, json={"description": "laptop", **fields})

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_body"
    assert answered.json["error"]["message"] == message
    assert len(ada.client.simulate_get(TOKENS).json["api_tokens"]) == 1


def test_a_revoked_key_is_none(world: World, ada: Account):
    made = _made(ada)
    path = f"{TOKENS}/{made['api_token']['id']}"

    assert ada.client.simulate_delete(path).status_code == 204

    headers = {"Authorization": f"Bearer {made['token']}"}
    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).status_code == 401
    assert [key["description"] for key in ada.client.simulate_get(TOKENS).json["api_tokens"]] == ["tests"]
    assert ada.client.simulate_delete(path).json["error"]["code"] == "api_token_not_found"


def test_a_key_of_another_user_is_not_found(ada: Account, bob: Account):
    others = _made(bob)["api_token"]["id"]
    for wrong in (others, str(uuid4()), "1", "x" * 1000, "%00", "é"):
        answered = ada.client.simulate_delete(f"{TOKENS}/{wrong}")
        assert answered.status_code == 404, wrong
        assert answered.json["error"]["code"] == "api_token_not_found"
    assert others in bob.client.simulate_get(TOKENS).text
