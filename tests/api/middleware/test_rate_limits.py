from __future__ import annotations

import http.client
from typing import Any

import pytest
from falcon import testing

from api import HttpSettings, Parts, RateLimitSettings, Server, create_app
from storage import Storage
from tests.api.world import World
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine

CLAIM = "/api/v0/auth/cli/claim"
CODE = "/api/v0/auth/cli/code"
USER = "/api/v0/user"
CREDENTIALS = [f"{USER}/{each}" for each in ("api-tokens", "sessions", "passkeys", "identities")]


def _world(storage: Storage, clock: ManualClock, http: HttpSettings | None = None, **limits: int) -> World:
    engine = FakeEngine(storage, clock)
    app = create_app(
        storage, engine, http or HttpSettings(), Parts(rate_limits=RateLimitSettings(**limits), clock=clock)
    )
    return World(storage, engine, clock, app)


def _limit_headers(answered: testing.Result) -> dict[str, str]:
    return {name.lower(): value for name, value in answered.headers.items() if name.lower().startswith("ratelimit")}


def _refused(answered: testing.Result, retry_after: int) -> None:
    assert answered.status_code == 429
    assert answered.json["error"]["code"] == answered.json["error"]["type"] == "rate_limited"
    assert answered.headers["Retry-After"] == str(retry_after)


def test_too_many_requests_of_an_address_are_429_with_retry(storage: Storage, clock: ManualClock):
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
    clock.advance(20)
    assert world.anonymous.simulate_post(CLAIM).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("POST", f"/api/{version}/auth/cli/transfer", 422) for version in ("v0", "v2")),
        *(("POST", f"/api/{version}/auth/cli/code", 200) for version in ("v0", "v2")),
        ("POST", "/api/v0/auth/passkey/register/options", 200),
        ("POST", "/api/v0/auth/passkey/register/finalize", 422),
        ("POST", "/api/v0/user/api-tokens", 422),
        *(("GET", path, 200) for path in CREDENTIALS),
        *(("DELETE", f"{path}/x", 404) for path in CREDENTIALS),
        ("POST", "/api/v0/invites/accept", 422),
    ],
)
def test_an_account_is_limited_wherever_it_asks_from(
    storage: Storage, clock: ManualClock, method: str, path: str, status: int
):
    world = _world(storage, clock, account_per_minute=2)
    client, other = world.sign_up("ada@example.org").signed_in(), world.sign_up("bob@example.org").signed_in()
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
        *(
            ("POST", f"/api/v0/auth/{way}/{step}")
            for way in ("passkey/login", "passkey/register", "passkey/signup", "recover")
            for step in ("options", "finalize")
        ),
        *(("POST", f"/api/v0/auth/{way}/begin") for way in ("passkey/signup", "recover")),
        *(("POST", f"/api/v0/auth/{provider}") for provider in ("google", "github", "oidc/corp")),
        ("GET", "/api/v0/auth/providers"),
        ("POST", "/api/v2/auth/google"),
        ("POST", "/api/v0/auth/logout"),
        ("POST", "/api/v0/user/api-tokens"),
        *(("GET", path) for path in CREDENTIALS),
        *(("DELETE", f"{path}/x") for path in CREDENTIALS),
        ("DELETE", "/api/v0/user"),
        ("POST", "/api/v0/invites/accept"),
        ("POST", "/api/v0/billing/checkout/ada-example-org"),
        ("POST", "/api/v0/billing/coupon/redeem/ada-example-org"),
    ],
)
def test_every_endpoint_about_credentials_is_limited_by_address(
    storage: Storage, clock: ManualClock, method: str, path: str
):
    world = _world(storage, clock, address_per_minute=1)
    assert world.anonymous.simulate_request(method, path).status_code != 429
    _refused(world.anonymous.simulate_request(method, path), 60)


def test_the_nearer_of_two_limits_is_reported(storage: Storage, clock: ManualClock):
    for limits, remaining in (({"address_per_minute": 9}, "8"), ({"account_per_minute": 7}, "6")):
        world = _world(storage, clock, **limits)
        client = world.sign_up(f"ada{remaining}@example.org").signed_in()
        assert client.simulate_post(CODE).headers["RateLimit-Remaining"] == remaining


def test_20_command_lines_at_one_address_poll_every_second(world: World, clock: ManualClock):
    for _ in range(60):
        assert {world.anonymous.simulate_post(CLAIM).status_code for _ in range(20)} == {400}
        clock.advance(1)


def test_a_flood_of_bad_tokens_is_refused_and_valid_ones_work(storage: Storage, clock: ManualClock):
    """All of them come from one address."""

    world = _world(storage, clock, failures_per_minute=3)
    ada = world.sign_up("ada@example.org")
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
    clock.advance(20)
    assert world.anonymous.simulate_get(USER, **bad).status_code == 401


@pytest.mark.parametrize("path", ["{job}/log", "{build}/render-log", "/v0/jobs/{uuid}/logs"])
def test_a_flood_of_bad_log_tokens_is_refused(storage: Storage, clock: ManualClock, path: str):
    """Bad bearer tokens count together with them; valid log tokens from the same address still work."""
    world = _world(storage, clock, failures_per_minute=2)
    job = world.sign_up("ada@example.org").pipeline().build().job()
    job.end()
    token = job.build.token()
    path = path.format(job=job.path, build=job.build.path, uuid=job.uuid)
    for _ in range(2):
        assert world.anonymous.simulate_get(path, params={"token": "nonsense"}).status_code == 401

    _refused(world.anonymous.simulate_get(path, params={"token": "nonsense"}), 30)
    _refused(world.anonymous.simulate_get(USER, headers={"Authorization": "Bearer nonsense"}), 30)

    assert world.anonymous.simulate_get(f"{job.path}/log", params={"token": token}).status_code == 200
    elsewhere = {"params": {"token": "nonsense"}, "remote_addr": "192.0.2.7"}
    assert world.anonymous.simulate_get(path, **elsewhere).status_code == 401
    clock.advance(30)
    assert world.anonymous.simulate_get(path, params={"token": "nonsense"}).status_code == 401


def test_a_flood_of_bad_runner_tokens_is_refused(storage: Storage, clock: ManualClock):
    world = _world(storage, clock, failures_per_minute=2)
    path = "/api/v0/internal/builds/0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e/source.tar.gz"
    for _ in range(3):
        assert world.anonymous.simulate_get(path).status_code == 401
    for header in ("Bearer nonsense", "Basic nonsense"):
        assert world.anonymous.simulate_get(path, headers={"Authorization": header}).status_code == 401

    _refused(world.anonymous.simulate_get(path, headers={"Authorization": "Bearer nonsense"}), 30)


def test_reading_with_a_good_token_is_not_limited(storage: Storage, clock: ManualClock):
    world = _world(storage, clock, address_per_minute=1, account_per_minute=1, failures_per_minute=1)
    ada = world.sign_up("ada@example.org")
    assert {ada.client.simulate_get(USER).status_code for _ in range(10)} == {200}
    assert not _limit_headers(ada.client.simulate_get(USER))


PUBLIC = [
    "/docs/api",
    "/docs/errors",
    "/docs/errors/busy",
    "/docs/static/page.css",
    "/api/v0/ping",
    "/api/v0/openapi.json",
    "/api/v0/pipeline.schema.json",
]


@pytest.mark.parametrize("path", PUBLIC)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nonsense"}])
def test_what_needs_no_token_is_limited_by_address(
    storage: Storage, clock: ManualClock, path: str, headers: dict[str, str]
):
    world = _world(storage, clock, address_per_minute=1)
    answered = world.anonymous.simulate_get(path, headers=headers)
    assert (answered.status_code < 400, answered.headers["RateLimit-Remaining"]) == (True, "0")
    _refused(world.anonymous.simulate_get(path, headers=headers), 60)
    assert world.anonymous.simulate_get(path, headers=headers, remote_addr="192.0.2.7").status_code < 400
    clock.advance(60)
    assert world.anonymous.simulate_get(path, headers=headers).status_code < 400


@pytest.mark.parametrize("path", ["/", "/login", "/docs", "/docs/tutorial", "/docs/search"])
def test_a_page_is_refused_in_words(storage: Storage, clock: ManualClock, path: str):
    world = _world(storage, clock, address_per_minute=1)
    assert world.anonymous.simulate_get(path).status_code < 400
    refused = world.anonymous.simulate_get(path)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    assert "too many requests" in refused.text
    assert refused.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("below", ["", "/1", "/1/jobs", "/1/jobs/{job}", "/1/jobs/{job}/log", "/1/render-log", "{sse}"])
def test_public_records_are_limited_by_address_without_a_token(storage: Storage, clock: ManualClock, below: str):
    world = _world(storage, clock, address_per_minute=1)
    pipeline = world.sign_up("ada@example.org").pipeline(visibility="public")
    job = pipeline.build().job()
    job.end()
    below = below.format(job=job.uuid, sse=f"/v0/jobs/{job.uuid}/logs")
    path = below if below.startswith("/v0") else f"{pipeline.path}/builds{below}"
    for _ in range(3):
        assert pipeline.account.client.simulate_get(path).status_code != 429
    if "log" in path and "render" not in path:
        log_token = job.build.token()
        assert {world.anonymous.simulate_get(path, params={"token": log_token}).status_code for _ in range(3)} == {200}
    assert world.anonymous.simulate_get(path).status_code != 429
    _refused(world.anonymous.simulate_get(path), 60)


def test_reads_without_a_token_do_not_block_sign_ins(storage: Storage, clock: ManualClock):
    world = _world(storage, clock, address_per_minute=1)
    world.anonymous.simulate_get("/docs/api")
    _refused(world.anonymous.simulate_get("/docs/api"), 60)
    assert world.anonymous.simulate_post(CLAIM).status_code == 400


def test_health_checks_are_not_limited(storage: Storage, clock: ManualClock):
    """They come from a proxy, whose address may be that of all its callers, and from this host."""
    world = _world(storage, clock, address_per_minute=1)
    for path in ("/healthz", "/metrics"):
        assert {world.anonymous.simulate_get(path).status_code for _ in range(5)} == {200}


@pytest.mark.parametrize(("trusted", "last"), [((), 429), (("127.0.0.1",), 400)])
def test_callers_behind_a_trusted_proxy_are_distinguished(storage: Storage, trusted: tuple[str, ...], last: int):
    settings = HttpSettings(listen="127.0.0.1:0", trusted_proxies=trusted)
    server = Server(settings)
    app = create_app(
        storage, FakeEngine(storage, None), server.settings, Parts(rate_limits=RateLimitSettings(address_per_minute=1))
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
