"""Connecting workspaces of Bitbucket by the API, and in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from falcon import testing

from api import HttpSettings
from storage import Role, Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.forges.bitbucket import BitbucketServer
from tests.forges.server import Reply
from tests.forges.workspaces import Connected, bitbucket

CONNECT = "/api/v0/integrations/bitbucket/connect"


@pytest.fixture
def host(storage: Storage, clock: ManualClock, tmp_path: Path) -> Iterator[Connected]:
    with bitbucket(storage, clock, tmp_path / "bitbucket", BitbucketServer()) as host:
        yield host


@pytest.fixture
def owner(storage: Storage, clock: ManualClock, host: Connected) -> Account:
    settings = HttpSettings(base_url="https://ci.example.org")
    return World.create(storage, clock, settings, workspaces=host.workspaces).sign_up("ada@example.org")


def state_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["state"][0]


def begin(account: Account) -> str:
    answered = account.client.simulate_get(f"{account.path}/bitbucket/oauth-url")
    assert answered.status_code == 200, answered.text
    return state_of(answered.json["url"])


def finish(account: Account, state: str, code: str = "a-code") -> testing.Result:
    return account.client.simulate_post(CONNECT, json={"code": code, "state": state})


def refusal(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_workspace_is_connected_listed_and_disconnected(owner: Account, host: Connected):
    answered = finish(owner, begin(owner))
    workspace = {"slug": "acme", "name": "acme"}
    assert (answered.status_code, answered.json) == (201, {"workspaces": [workspace], "org": owner.org})
    assert owner.world.engine.deliveries == 1
    host.process()
    path = f"{owner.path}/bitbucket/workspaces"
    assert owner.client.simulate_get(path).json == {"workspaces": [workspace]}
    (repo,) = owner.client.simulate_get(f"{path}/acme/repos").json["repos"]
    assert (repo["full_name"], repo["name"], repo["default_branch"]) == ("acme/web", "web", "main")
    assert repo["clone_url"] == f"{host.local.url}/acme/web.git"
    assert owner.client.simulate_delete(f"{path}/acme").status_code == 204
    assert owner.client.simulate_get(path).json == {"workspaces": []}
    assert refusal(owner.client.simulate_delete(f"{path}/acme")) == (404, "bitbucket_workspace_not_found")


def test_the_page_is_bitbuckets_own(owner: Account, host: Connected):
    url = owner.client.simulate_get(f"{owner.path}/bitbucket/oauth-url").json["url"]
    assert url.startswith(f"{host.local.url}/site/oauth2/authorize?client_id=client&response_type=code&state=")
    assert "client-secret" not in url


def test_a_state_lasts_600_seconds(owner: Account, clock: ManualClock):
    states = begin(owner), begin(owner)
    clock.advance(599)
    assert finish(owner, states[0]).status_code == 201
    clock.advance(1)
    assert refusal(finish(owner, states[1])) == (403, "bitbucket_invalid_state")


def test_a_state_is_of_one_user(owner: Account, host: Connected):
    """Nobody connects a stranger's workspace by sending the stranger back with the own state."""
    other = owner.world.sign_up("eve@example.org")
    other.join(owner, Role.ADMIN)
    assert refusal(finish(other, begin(owner))) == (403, "bitbucket_invalid_state")
    assert host.local.asked == []


@pytest.mark.parametrize("state", ["", " ", "x", "W10.x", "é"])
def test_a_forged_state_is_refused(owner: Account, state: str):
    assert finish(owner, state).status_code in {403, 422}
    assert finish(owner, begin(owner) + "x").status_code == 403


def test_who_is_no_admin_any_more_cannot_finish(owner: Account):
    other = owner.world.sign_up("eve@example.org")
    other.join(owner, Role.ADMIN)
    url = other.client.simulate_get(f"{owner.path}/bitbucket/oauth-url").json["url"]
    owner.world.storage.members.change(owner.org_id, other.user.uuid, Role.MEMBER, owner.user.id)
    assert refusal(finish(other, state_of(url))) == (403, "insufficient_org_role")


def test_a_workspace_of_another_organization_is_409(owner: Account, host: Connected):
    finish(owner, begin(owner))
    other = owner.world.sign_up("eve@example.org")
    host.server.code = "another"
    assert refusal(finish(other, begin(other), "another")) == (409, "bitbucket_installation_bound_elsewhere")


@pytest.mark.parametrize("fault", [Reply(400, {"error": "invalid_grant"}), Reply(500), Reply(200, b"<html>"), None])
def test_a_fault_of_bitbucket_is_502(owner: Account, host: Connected, fault: Reply | None):
    host.local.faults = [fault]
    assert refusal(finish(owner, begin(owner))) == (502, "bitbucket_connect_failed")


def test_without_a_consumer_it_is_503(storage: Storage, clock: ManualClock):
    account = World.create(storage, clock, HttpSettings()).sign_up("ada@example.org")
    answered = account.client.simulate_get(f"{account.path}/bitbucket/oauth-url")
    assert refusal(answered) == (503, "bitbucket_not_configured")


def browser(account: Account) -> dict[str, Any]:
    """Return the headers of a browser that is signed in."""
    _, token = account.world.storage.tokens.create_session(account.user.id, "tests")
    return {"Cookie": f"__Host-session={token}"}


def test_a_browser_goes_there_and_back(owner: Account):
    client, headers = testing.TestClient(owner.world.app), browser(owner)
    away = client.simulate_get("/integrations/bitbucket", params={"org": owner.org}, headers=headers)
    assert away.status_code == 303
    query = {"code": "a-code", "state": state_of(away.headers["Location"])}
    back = client.simulate_get("/integrations/bitbucket/callback", params=query, headers=headers)
    assert (back.status_code, back.headers["Location"].split("/")[-2:]) == (303, [owner.org, "repositories"])
    assert len(owner.client.simulate_get(f"{owner.path}/bitbucket/workspaces").json["workspaces"]) == 1


def test_a_declined_page_says_so(owner: Account):
    client = testing.TestClient(owner.world.app)
    query = {"error": "access_denied", "state": "x"}
    back = client.simulate_get("/integrations/bitbucket/callback", params=query, headers=browser(owner))
    assert back.status_code == 502
    assert "you declined" in back.text
