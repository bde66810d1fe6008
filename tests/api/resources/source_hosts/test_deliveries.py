"""Each answer to a delivery of GitHub, and to one of a host that is unknown or not configured."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest
from falcon import testing

from actors.source_hosts import Github, GithubApi, GithubAppSettings
from api import HttpSettings
from storage import Storage
from tests.api.world import World
from tests.clock import ManualClock
from tests.github_server import APP_ID, WEBHOOK_SECRET

BODY = b'{"action": "created", "installation": {"id": 7}}'
SIGNED = "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), BODY, "sha256").hexdigest()


def deliver(world: World, provider: str = "github", **changes: str | None) -> testing.Result:
    headers = {"X-GitHub-Event": "installation", "X-GitHub-Delivery": "d-1", "X-Hub-Signature-256": SIGNED}
    given = {each: value for each, value in (headers | changes).items() if value is not None}
    return world.anonymous.simulate_post(f"/webhooks/{provider}", body=BODY, headers=given)


def world_of(storage: Storage, clock: ManualClock, settings: GithubAppSettings) -> World:
    hosts = {"github": Github(storage, settings, GithubApi(settings, clock))}
    return World.create(storage, clock, HttpSettings(), hosts=hosts)


@pytest.fixture
def world(storage: Storage, clock: ManualClock, tmp_path: Path) -> World:
    return world_of(storage, clock, GithubAppSettings(APP_ID, tmp_path / "app.pem", WEBHOOK_SECRET))


def refusal(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_delivery_is_accepted_once(world: World):
    answers = [deliver(world) for _ in range(2)]
    assert [(each.status_code, each.json["status"]) for each in answers] == [(202, "accepted"), (200, "duplicate")]
    (stored,) = world.storage.deliveries.latest(10)
    assert (stored.event, stored.body) == ("installation", BODY)


@pytest.mark.parametrize(
    ("provider", "changes", "expected"),
    [
        ("svn", {}, (404, "source_host_unknown")),
        ("github", {"X-GitHub-Event": None}, (400, "delivery_event_missing")),
        ("github", {"X-Hub-Signature-256": SIGNED[:-1] + "g"}, (401, "delivery_signature_invalid")),
        ("github", {"X-Hub-Signature-256": None}, (401, "delivery_signature_invalid")),
    ],
)
def test_a_refusal_has_its_code(world: World, provider: str, changes: dict[str, str | None], expected: tuple[int, str]):
    assert refusal(deliver(world, provider, **changes)) == expected
    assert world.storage.deliveries.latest(10) == []


def test_without_an_app_there_is_none_to_deliver_to(storage: Storage, clock: ManualClock):
    world = world_of(storage, clock, GithubAppSettings())
    assert refusal(deliver(world)) == (503, "source_host_not_configured")
