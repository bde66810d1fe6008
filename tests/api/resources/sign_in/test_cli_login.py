from __future__ import annotations

import hashlib
from typing import Any

import pytest
from falcon import testing

from tests.api.world import Account, World

V0 = "/api/v0/auth/cli"
V2 = "/api/v2/auth/cli"
NONCE = "a-nonce-of-the-command-line"
HASH = hashlib.sha256(NONCE.encode()).hexdigest()


def _claim(world: World, version: str = V0, nonce: str = NONCE) -> testing.Result:
    return world.anonymous.simulate_post(f"{version}/claim", json={"nonce": nonce})


def _refused(answered: testing.Result) -> None:
    assert answered.status_code == 400
    assert answered.json["error"]["code"] == "cli_code_invalid"
    assert answered.json["error"]["type"] == "invalid_request"


def _is_session_of(world: World, answered: testing.Result, account: Account) -> None:
    assert answered.status_code == 200
    assert set(answered.json) == {"token"}
    assert answered.headers["Cache-Control"] == "no-store"
    headers = {"Authorization": f"Bearer {answered.json['token']}"}
    assert world.anonymous.simulate_get("/api/v0/user", headers=headers).json["email"] == account.email
    body = {"description": "only a session may"}
    assert world.anonymous.simulate_post("/api/v0/user/api-tokens", json=body, headers=headers).status_code == 201


@pytest.mark.parametrize("transferred", [(V0, {"nonce": NONCE}), (V2, {"nonce_hash": HASH})])
@pytest.mark.parametrize("claimed", [V0, V2])
def test_a_command_line_waits_and_then_has_a_session_once(
    world: World, ada: Account, transferred: tuple[str, Any], claimed: str
):
    version, body = transferred
    _refused(_claim(world, claimed))

    answered = ada.signed_in().simulate_post(f"{version}/transfer", json=body)
    assert (answered.status_code, answered.content) == (204, b"")

    _is_session_of(world, _claim(world, claimed), ada)
    _refused(_claim(world, claimed))


def test_a_nonce_is_good_for_sixty_seconds(world: World, ada: Account):
    session = ada.signed_in()
    for seconds, status in ((59.999999, 200), (60, 400)):
        assert session.simulate_post(f"{V0}/transfer", json={"nonce": NONCE}).status_code == 204
        world.clock.advance(seconds)
        assert _claim(world).status_code == status


@pytest.mark.parametrize("made", [V0, V2])
@pytest.mark.parametrize("redeemed", [V0, V2])
def test_a_code_is_typed_in_and_is_a_session_once(world: World, ada: Account, made: str, redeemed: str):
    answered = ada.signed_in().simulate_post(f"{made}/code")
    assert answered.status_code == 200
    assert set(answered.json) == {"code"}
    assert answered.headers["Cache-Control"] == "no-store"
    code = answered.json["code"]

    typed = {"code": f" {code[:4].lower()}-{code[4:9]} {code[9:]} "}
    _is_session_of(world, world.anonymous.simulate_post(f"{redeemed}/redeem", json=typed), ada)
    _refused(world.anonymous.simulate_post(f"{redeemed}/redeem", json=typed))


def test_a_code_is_good_for_three_hundred_seconds(world: World, ada: Account):
    session = ada.signed_in()
    for seconds, status in ((299.999999, 200), (300, 400)):
        code = session.simulate_post(f"{V0}/code").json["code"]
        world.clock.advance(seconds)
        assert world.anonymous.simulate_post(f"{V0}/redeem", json={"code": code}).status_code == status


@pytest.mark.parametrize("version", [V0, V2])
@pytest.mark.parametrize("step", ["transfer", "code"])
def test_only_a_session_hands_sessions_out(world: World, ada: Account, version: str, step: str):
    refused = ada.client.simulate_post(f"{version}/{step}", json={})
    assert (refused.status_code, refused.json["error"]["code"]) == (403, "session_required")
    assert world.anonymous.simulate_post(f"{version}/{step}", json={}).status_code == 401


@pytest.mark.parametrize("step", ["claim", "redeem"])
@pytest.mark.parametrize("body", [None, "{}", '{"nonce": null, "code": null}', '{"nonce": "", "code": " - "}'])
def test_version_0_takes_no_body_for_what_is_unknown(world: World, step: str, body: str | None):
    _refused(world.anonymous.simulate_post(f"{V0}/{step}", body=body, content_type="application/json"))


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (f"{V0}/transfer", None, "nonce: expected a value, the field is required"),
        (f"{V0}/transfer", {}, "nonce: expected a value, the field is required"),
        (f"{V0}/transfer", {"nonce": None}, "nonce: expected a string"),
        (f"{V0}/transfer", {"nonce": "n" * 15}, "nonce: expected at least 16 characters"),
        (f"{V0}/transfer", {"nonce": "n" * 257}, "nonce: expected at most 256 characters"),
        (f"{V0}/claim", {"nonce": 7}, "nonce: expected a string"),
        (f"{V0}/claim", {"nonce": "n" * 257}, "nonce: expected at most 256 characters"),
        (f"{V0}/redeem", {"code": []}, "code: expected a string"),
        (f"{V0}/redeem", {"code": "0" * 256}, "code: expected at most 255 characters"),
        (f"{V2}/transfer", {"nonce": NONCE}, "nonce_hash: expected a value, the field is required"),
        (f"{V2}/claim", {}, "nonce: expected a value, the field is required"),
        (f"{V2}/claim", {"nonce": " "}, "nonce: expected a string that is not blank"),
        (f"{V2}/redeem", {}, "code: expected a value, the field is required"),
        (f"{V2}/redeem", {"code": ""}, "code: expected a string that is not blank"),
        *(
            (f"{V2}/transfer", {"nonce_hash": wrong}, "nonce_hash: expected a string that matches ^[0-9a-f]{64}$")
            for wrong in ("", HASH.upper(), HASH[:-1], HASH + "0", HASH + "\n", "g" + HASH[1:])
        ),
    ],
)
def test_a_wrong_body_is_refused_with_the_expectation(ada: Account, path: str, body: object, message: str):
    answered = ada.signed_in().simulate_post(path, json=body)
    assert (answered.status_code, answered.json["error"]["code"]) == (422, "invalid_body")
    assert answered.json["error"]["message"] == message


@pytest.mark.parametrize("length", [16, 256])
def test_a_nonce_may_have_sixteen_to_256_characters(world: World, ada: Account, length: int):
    assert ada.signed_in().simulate_post(f"{V0}/transfer", json={"nonce": "ñ" * length}).status_code == 204
    assert _claim(world, nonce="ñ" * length).status_code == 200


@pytest.mark.parametrize("step", ["claim", "redeem"])
def test_version_2_needs_a_body(world: World, step: str):
    answered = world.anonymous.simulate_post(f"{V2}/{step}")
    assert (answered.status_code, answered.json["error"]["code"]) == (400, "malformed_json")


def test_logout_of_a_claimed_session_keeps_the_browsers(world: World, ada: Account):
    browser = ada.signed_in()
    browser.simulate_post(f"{V0}/transfer", json={"nonce": NONCE})
    claimed = {"Authorization": f"Bearer {_claim(world).json['token']}"}
    assert world.anonymous.simulate_post("/api/v0/auth/logout", headers=claimed).status_code == 204
    assert world.anonymous.simulate_get("/api/v0/user", headers=claimed).status_code == 401
    assert browser.simulate_get("/api/v0/user").status_code == 200
