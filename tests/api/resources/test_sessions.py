from __future__ import annotations

import pytest

from tests.api.world import Account, World

LOGOUT = "/api/v0/auth/logout"


def test_logout_ends_a_session_and_can_be_repeated(ada: Account):
    session = ada.signed_in()
    assert session.simulate_get("/api/v0/user").status_code == 200

    for _ in range(2):
        answered = session.simulate_post(LOGOUT)
        assert answered.status_code == 204
        assert answered.content == b""
        assert session.simulate_get("/api/v0/user").status_code == 401


def test_an_api_key_logs_out_too_and_other_tokens_stay(ada: Account):
    session = ada.signed_in()
    assert ada.client.simulate_post(LOGOUT).status_code == 204
    assert ada.client.simulate_get("/api/v0/user").status_code == 401
    assert session.simulate_get("/api/v0/user").status_code == 200


def test_an_expired_session_may_be_logged_out(world: World, ada: Account):
    session = ada.signed_in()
    world.clock.advance(31 * 24 * 3600)
    assert session.simulate_get("/api/v0/user").status_code == 401
    assert session.simulate_post(LOGOUT).status_code == 204


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}])
def test_without_a_token_of_this_service_nothing_is_logged_out(world: World, headers: dict[str, str]):
    answered = world.anonymous.simulate_post(LOGOUT, headers=headers)
    assert answered.status_code == 401
    assert answered.headers["WWW-Authenticate"] == "Bearer"
