from __future__ import annotations

import re

import pytest

from api import HttpSettings, Parts, RateLimitSettings, create_app
from storage import Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine

ORGANIZATIONS = "/api/v0/organizations"


def test_a_new_organization_belongs_to_its_creator(ada: Account, bob: Account):
    created = ada.client.simulate_post(ORGANIZATIONS, json={"name": "Ünited Ärts!", "url": "https://arts.example"})

    assert created.status_code == 201
    assert created.json["slug"] == "united-arts"
    assert created.json["name"] == "Ünited Ärts!"
    assert created.json["url"] == "https://arts.example"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", created.json["created_at"])
    assert [row["slug"] for row in ada.client.simulate_get(ORGANIZATIONS).json["data"]] == [ada.org, "united-arts"]
    assert [row["slug"] for row in bob.client.simulate_get(ORGANIZATIONS).json["data"]] == [bob.org]


def test_colliding_slugs_are_numbered(ada: Account):
    slugs = [ada.client.simulate_post(ORGANIZATIONS, json={"name": "Acme"}).json["slug"] for _ in range(3)]

    assert slugs == ["acme", "acme-2", "acme-3"]


def test_the_url_may_be_left_out(ada: Account):
    assert ada.client.simulate_post(ORGANIZATIONS, json={"name": "x", "url": None}).json["url"] == ""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name: expected a value, the field is required"),
        ({"name": None}, "name: expected a string"),
        ({"name": 7}, "name: expected a string"),
        ({"name": ""}, "name: expected a string that is not blank"),
        ({"name": " \t"}, "name: expected a string that is not blank"),
        ({"name": "x" * 256}, "name: expected at most 255 characters"),
        ({"name": "a\0b"}, "name: expected no NUL character"),
        ({"name": "!!!"}, "name: expected at least one letter a-z or digit"),
        ({"name": "x", "url": []}, "url: expected a string"),
        ({"name": "x", "url": "y" * 256}, "url: expected at most 255 characters"),
        ([], "$: expected an object"),
        (None, "$: expected an object"),
    ],
)
def test_a_wrong_body_is_refused_with_path_and_expectation(ada: Account, body: object, message: str):
    answered = ada.client.simulate_post(
        ORGANIZATIONS, json=body, body=None if body is not None else "null", content_type="application/json"
    )

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_body"
    assert answered.json["error"]["type"] == "validation_failed"
    assert answered.json["error"]["message"] == message


def test_unknown_fields_are_ignored(ada: Account):
    assert ada.client.simulate_post(ORGANIZATIONS, json={"name": "x", "colour": {"a": 1}}).status_code == 201


def test_an_organization_is_read_by_its_slug(world: World, ada: Account, bob: Account):
    listed = ada.client.simulate_get(ORGANIZATIONS).json["data"][0]

    answered = ada.client.simulate_get(ada.path)
    assert (answered.status_code, answered.json) == (200, listed)
    for path, client in ((ada.path, bob.client), (f"{ORGANIZATIONS}/nothing", ada.client)):
        refused = client.simulate_get(path)
        assert (refused.status_code, refused.json["error"]["code"]) == (404, "organization_not_found")
    assert world.anonymous.simulate_get(ada.path).status_code == 401


def test_one_account_owns_a_limited_number_of_organizations(
    storage: Storage, clock: ManualClock, settings: HttpSettings
):
    limits = RateLimitSettings(organizations_per_account=3)
    app = create_app(storage, FakeEngine(storage, clock), settings, Parts(clock=clock, rate_limits=limits))
    ada = World(storage, FakeEngine(storage, clock), clock, app).sign_up("ada@example.org")
    statuses = [ada.client.simulate_post("/api/v0/organizations", json={"name": name}).status_code for name in "abc"]
    refused = ada.client.simulate_post("/api/v0/organizations", json={"name": "d"})

    assert statuses == [201, 201, 409]
    assert refused.json["error"]["code"] == "organization_limit_reached"
