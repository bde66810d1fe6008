from __future__ import annotations

import http.client
from typing import Any

import pytest
from falcon import testing

from api import HttpSettings, RateLimitSettings, Server, create_app
from storage import Storage
from tests.api.world import DummyEngine, TurnableClock, World

CLAIM = "/api/v0/auth/cli/claim"
CODE = "/api/v0/auth/cli/code"
USER = "/api/v0/user"


def _world(storage: Storage, clock: TurnableClock, http: HttpSettings | None = None, **limits: int) -> World:
    engine = DummyEngine(storage, clock)
    app = create_app(storage, engine, http or HttpSettings(), rate_limits=RateLimitSettings(**limits), clock=clock)
    return World(storage, engine, clock, app)


def _limit_headers(answered: testing.Result) -> dict[str, str]:
    return {name.lower(): value for name, value in answered.headers.items() if name.lower().startswith("ratelimit")}


def _refused(answered: testing.Result, retry_after: int) -> None:
    assert answered.status_code == 429
    assert answered.json["error"]["code"] == answered.json["error"]["type"] == "rate_limited"
    assert answered.headers["Retry-After"] == str(retry_after)


def test_who_asks_too_often_from_one_address_is_told_when_to_come_again(storage: Storage, clock: TurnableClock):
    world = _world(storage, clock, address_per_minute=3)
    for left in (2, 1, 0):
        answered = world.anonymous.simulate_post(CLAIM)
        assert answered.status_code == 400
        assert _limit_headers(answered) == {
            "ratelimit-limit": "3",
            "ratelimit-remaining": str(left),
            "ratelimit-reset": str(60 - 20 * left),
        }

    answered = world.anonymous.simulate_post(CLAIM)

    _refused(answered, 20)
    assert _limit_headers(answered) == {"ratelimit-limit": "3", "ratelimit-remaining": "0", "ratelimit-reset": "60"}
    assert world.anonymous.simulate_post(CLAIM, remote_addr="192.0.2.7").status_code == 400
    clock.turn(20)
    assert world.anonymous.simulate_post(CLAIM).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("POST", f"/api/{version}/auth/cli/{step}", 422) for version in ("v0", "v2") for step in ("transfer",)),
        *(("POST", f"/api/{version}/auth/cli/code", 200) for version in ("v0", "v2")),
        ("GET", "/api/v0/user/api-tokens", 200),
        ("POST", "/api/v0/user/api-tokens", 422),
        ("DELETE", "/api/v0/user/api-tokens/x", 404),
    ],
)
def test_an_account_is_limited_wherever_it_asks_from(
    storage: Storage, clock: TurnableClock, method: str, path: str, status: int
):
    world = _world(storage, clock, account_per_minute=2)
    client, other = world.join("ada@example.org").signed_in(), world.join("bob@example.org").signed_in()
    for number in (1, 2):
        answered = client.simulate_request(method, path, json={}, remote_addr=f"192.0.2.{number}")
        assert answered.status_code == status
        assert answered.headers["RateLimit-Remaining"] == str(2 - number)
    _refused(client.simulate_request(method, path, json={}, remote_addr="192.0.2.3"), 30)
    assert other.simulate_request(method, path, json={}, remote_addr="192.0.2.3").status_code == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            ("POST", f"/api/{version}/auth/cli/{step}")
            for version in ("v0", "v2")
            for step in ("transfer", "claim", "code", "redeem")
        ),
        ("POST", "/api/v0/auth/logout"),
        ("GET", "/api/v0/user/api-tokens"),
        ("POST", "/api/v0/user/api-tokens"),
        ("DELETE", "/api/v0/user/api-tokens/x"),
        ("DELETE", "/api/v0/user"),
    ],
)
def test_every_endpoint_about_credentials_is_limited_by_address(
    storage: Storage, clock: TurnableClock, method: str, path: str
):
    world = _world(storage, clock, address_per_minute=1)
    assert world.anonymous.simulate_request(method, path).status_code != 429
    _refused(world.anonymous.simulate_request(method, path), 60)


def test_the_nearer_of_two_limits_is_told(storage: Storage, clock: TurnableClock):
    for limits, told in (({"address_per_minute": 9}, "8"), ({"account_per_minute": 7}, "6")):
        world = _world(storage, clock, **limits)
        client = world.join(f"ada{told}@example.org").signed_in()
        assert client.simulate_post(CODE).headers["RateLimit-Remaining"] == told


def test_twenty_command_lines_behind_one_address_may_ask_once_a_second(world: World, clock: TurnableClock):
    for _ in range(60):
        assert {world.anonymous.simulate_post(CLAIM).status_code for _ in range(20)} == {400}
        clock.turn(1)


def test_a_flood_of_bad_tokens_is_refused_and_good_ones_from_there_are_good(storage: Storage, clock: TurnableClock):
    world = _world(storage, clock, failures_per_minute=3)
    ada = world.join("ada@example.org")
    bad: dict[str, Any] = {"headers": {"Authorization": "Bearer nonsense"}}
    paths = (USER, f"{ada.path}/pipelines", "/api/v0/organizations")
    for path in paths:
        assert world.anonymous.simulate_get(path, **bad).status_code == 401

    for path in paths:
        _refused(world.anonymous.simulate_get(path, **bad), 20)
    _refused(world.anonymous.simulate_post("/api/v0/auth/logout", **bad), 20)

    assert ada.client.simulate_get(USER).status_code == 200
    assert world.anonymous.simulate_get(USER).status_code == 401
    assert world.anonymous.simulate_get(USER, remote_addr="192.0.2.7", **bad).status_code == 401
    clock.turn(20)
    assert world.anonymous.simulate_get(USER, **bad).status_code == 401


def test_reading_with_a_good_token_is_not_limited(storage: Storage, clock: TurnableClock):
    world = _world(storage, clock, address_per_minute=1, account_per_minute=1, failures_per_minute=1)
    ada = world.join("ada@example.org")
    assert {ada.client.simulate_get(USER).status_code for _ in range(10)} == {200}
    assert not _limit_headers(ada.client.simulate_get(USER))


@pytest.mark.parametrize(("trusted", "last"), [((), 429), (("127.0.0.1",), 400)])
def test_behind_a_proxy_callers_are_told_apart_where_it_is_trusted(
    storage: Storage, trusted: tuple[str, ...], last: int
):
    settings = HttpSettings(listen="127.0.0.1:0", trusted_proxies=trusted)
    server = Server(settings)
    app = create_app(
        storage, DummyEngine(storage, None), server.settings, rate_limits=RateLimitSettings(address_per_minute=1)
    )
    server.start(app)
    try:
        statuses = [_claim_through(server.address, caller) for caller in ("198.51.100.1", "198.51.100.2")]
    finally:
        server.close()
    assert statuses == [400, last]


def _claim_through(address: str, caller: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", CLAIM, headers={"X-Forwarded-For": caller})
        return connection.getresponse().status
    finally:
        connection.close()
