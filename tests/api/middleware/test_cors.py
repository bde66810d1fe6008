from __future__ import annotations

import pytest

from api import HttpSettings
from tests.api.world import Account, World

PAGE = "https://app.example.org"
PREFLIGHT = {"Origin": PAGE, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}


@pytest.fixture
def settings() -> HttpSettings:
    return HttpSettings(cors_origins=("https://App.example.org/", "http://localhost:3000"))


def test_a_preflight_from_a_listed_origin_is_answered(world: World):
    answered = world.anonymous.simulate_options("/api/v0/user", headers=PREFLIGHT)

    assert answered.status_code == 204
    assert answered.headers["Access-Control-Allow-Origin"] == PAGE
    assert answered.headers["Access-Control-Allow-Methods"] == "GET, POST, PUT, PATCH, DELETE"
    assert answered.headers["Access-Control-Allow-Headers"] == "authorization, content-type, last-event-id"
    assert answered.headers["Vary"] == "Origin"
    assert "X-Request-Id" in answered.headers


def test_answers_to_a_listed_origin_may_be_read(world: World, ada: Account):
    for client in (ada.client, world.anonymous):
        answered = client.simulate_get("/api/v0/user", headers={"Origin": PAGE})
        assert answered.headers["Access-Control-Allow-Origin"] == PAGE
        assert "X-Request-Id" in answered.headers["Access-Control-Expose-Headers"]
        assert "Access-Control-Allow-Credentials" not in answered.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.org.evil.example", "*"])
def test_other_origins_get_nothing(world: World, ada: Account, origin: str):
    for answered in (
        world.anonymous.simulate_options("/api/v0/user", headers={**PREFLIGHT, "Origin": origin}),
        ada.client.simulate_get("/api/v0/user", headers={"Origin": origin}),
        ada.client.simulate_get("/api/v0/user"),
    ):
        assert not [name for name in answered.headers if name.lower().startswith("access-control")]
        assert answered.headers["Vary"] == "Origin"
