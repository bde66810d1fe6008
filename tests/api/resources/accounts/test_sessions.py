from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from tests.api.world import Account, World

LOGOUT = "/api/v0/auth/logout"
SESSIONS = "/api/v0/user/sessions"


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


FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def sessions_of(client: testing.TestClient) -> list[dict[str, Any]]:
    answered = client.simulate_get(SESSIONS)
    assert answered.status_code == 200, answered.text
    found: list[dict[str, Any]] = answered.json["sessions"]
    return found


def handed_over(world: World, account: Account, **request: Any) -> testing.TestClient:
    """Return a client with a session that was handed to a command line."""
    code = account.signed_in().simulate_post("/api/v0/auth/cli/code").json
    answered = world.anonymous.simulate_post("/api/v0/auth/cli/redeem", json=code, **request)
    return testing.TestClient(world.app, headers={"Authorization": f"Bearer {answered.json['token']}"})


def test_sessions_are_listed_newest_first(world: World, ada: Account, bob: Account):
    first = ada.signed_in()
    world.clock.advance(90)
    second = handed_over(world, ada, headers={"User-Agent": FIREFOX}, remote_addr="192.0.2.7")
    bob.signed_in()

    newest, code_giver, oldest = sessions_of(second)
    assert (newest["address"], newest["agent"], newest["current"]) == ("192.0.2.7", "Firefox on Linux", True)
    assert (oldest["address"], oldest["agent"], oldest["current"]) == (None, None, False)
    assert not code_giver["current"]
    assert newest["created_at"] == newest["last_used_at"] == "2026-01-02T03:05:35.000000Z"
    assert oldest["created_at"] == "2026-01-02T03:04:05.000000Z"
    assert [each["current"] for each in sessions_of(first)] == [False, False, True]


def test_the_last_use_is_noted_once_a_minute(world: World, ada: Account):
    session = ada.signed_in()
    sessions_of(session)
    world.clock.advance(59)
    assert sessions_of(session)[0]["last_used_at"] == "2026-01-02T03:04:05.000000Z"
    world.clock.advance(1)
    sessions_of(session)
    assert sessions_of(session)[0]["last_used_at"] == "2026-01-02T03:05:05.000000Z"


def test_an_ended_session_is_refused_and_gone(ada: Account):
    first, second = ada.signed_in(), ada.signed_in()
    other = next(each for each in sessions_of(second) if not each["current"])
    assert second.simulate_delete(f"{SESSIONS}/{other['uuid']}").status_code == 204
    assert first.simulate_get("/api/v0/user").status_code == 401
    assert [each["current"] for each in sessions_of(second)] == [True]
    assert second.simulate_delete(f"{SESSIONS}/{other['uuid']}").status_code == 404


def test_a_session_may_end_itself(ada: Account):
    session = ada.signed_in()
    assert session.simulate_delete(f"{SESSIONS}/{sessions_of(session)[0]['uuid']}").status_code == 204
    assert session.simulate_get(SESSIONS).status_code == 401


def test_expired_sessions_are_not_listed(world: World, ada: Account):
    ada.signed_in()
    world.clock.advance(30 * 24 * 3600)
    assert len(sessions_of(ada.signed_in())) == 1


def test_nobody_ends_the_session_of_another(ada: Account, bob: Account):
    theirs = sessions_of(ada.signed_in())[0]["uuid"]
    answered = bob.signed_in().simulate_delete(f"{SESSIONS}/{theirs}")
    assert (answered.status_code, answered.json["error"]["code"]) == (404, "session_not_found")
    assert len(sessions_of(ada.signed_in())) == 2


def test_an_api_key_lists_sessions_but_ends_none(world: World, ada: Account):
    ada.signed_in()
    (session,) = sessions_of(ada.client)
    assert not session["current"]
    refused = ada.client.simulate_delete(f"{SESSIONS}/{session['uuid']}")
    assert (refused.status_code, refused.json["error"]["code"]) == (403, "session_required")
    key = world.storage.tokens.api_keys(ada.user.id)[0]
    assert ada.signed_in().simulate_delete(f"{SESSIONS}/{key.uuid}").status_code == 404
    assert ada.client.simulate_get("/api/v0/user").status_code == 200


@pytest.mark.parametrize("but_this", [True, False])
def test_all_sessions_but_one_end_at_once(world: World, ada: Account, bob: Account, but_this: bool):
    kept, others, theirs = ada.signed_in(), [ada.signed_in() for _ in range(3)], bob.signed_in()
    code = kept.simulate_post("/api/v0/auth/cli/code").json
    this = world.storage.tokens.sessions(ada.user.id)[-1]
    ended = world.storage.tokens.end_sessions(ada.user.id, but=this.id if but_this else None)

    assert ended == (3 if but_this else 4)
    assert {each.simulate_get("/api/v0/user").status_code for each in others} == {401}
    assert kept.simulate_get("/api/v0/user").status_code == (200 if but_this else 401)
    assert theirs.simulate_get("/api/v0/user").status_code == 200
    assert ada.client.simulate_get("/api/v0/user").status_code == 200
    assert world.anonymous.simulate_post("/api/v0/auth/cli/redeem", json=code).status_code == 400


def test_a_hostile_agent_leaves_nothing_of_itself(world: World, ada: Account):
    agent = "<script>alert(1)</script>\x1b[2J Mozilla/5.0 Firefox/1 Windows " + "A" * 30_000
    session = handed_over(world, ada, headers={"User-Agent": agent})
    assert sessions_of(session)[0]["agent"] == "Firefox on Windows"
