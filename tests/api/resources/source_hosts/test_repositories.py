"""Refusals of connecting a repository by token, with a real host that answers as Forgejo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from falcon import testing

from actors.source_hosts import RepositoryConnector
from api import HttpSettings
from storage import Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.forges.connected import TOKEN, forges
from tests.forges.forgejo import ForgejoServer
from tests.forges.server import LocalHost, Reply, serving
from tests.state import new_storage


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalHost]:
    with serving(ForgejoServer(), tmp_path / "forge") as local:
        yield local


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    storage = new_storage(tmp_path / "state", ManualClock())
    yield storage
    storage.close()


@pytest.fixture
def owner(storage: Storage, local: LocalHost) -> Account:
    hosts, settings = forges(storage, local), HttpSettings(base_url="https://ci.example.org")
    connector = RepositoryConnector(storage, hosts, settings.url)
    return World.create(storage, ManualClock(), settings, hosts=hosts, connector=connector).sign_up("ada@example.org")


def connect(account: Account, local: LocalHost, **changes: Any) -> testing.Result:
    body = {"url": f"{local.url}/acme/web", "token": TOKEN, **changes}
    return account.client.simulate_post(f"{account.path}/repos/connect", json=body)


def refusal(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_connected_repository_is_answered_without_its_token(owner: Account, local: LocalHost):
    answered = connect(owner, local)
    assert answered.status_code == 201
    assert TOKEN not in answered.text
    assert {key: answered.json[key] for key in ("full_name", "owner", "name", "provider", "account")} == {
        "full_name": "acme/web",
        "owner": "acme",
        "name": "web",
        "provider": "forgejo",
        "account": "ci-bot",
    }


def test_submodules_and_lfs_are_packed_by_wish(owner: Account, local: LocalHost):
    answers = [connect(owner, local, **given).json for given in ({}, {"lfs": True, "submodules": True}, {"lfs": False})]
    assert [each["submodules"] for each in answers] == [False, True, True]
    assert [each["lfs"] for each in answers] == [False, True, False]


def test_an_admin_changes_what_is_packed(owner: Account, local: LocalHost):
    path = f"{owner.path}/repos/{connect(owner, local).json['id']}"
    answers = [owner.client.simulate_patch(path, json=given) for given in ({"lfs": True}, {"submodules": True}, {})]
    assert [(each.json["submodules"], each.json["lfs"]) for each in answers] == [
        (False, True),
        (True, True),
        (True, True),
    ]
    assert refusal(owner.client.simulate_patch(path, json={"lfs": "yes"})) == (422, "invalid_body")
    other = owner.world.sign_up("eve@example.org")
    elsewhere = path.replace(owner.path, other.path)
    assert refusal(other.client.simulate_patch(elsewhere, json={})) == (404, "repo_not_found")


def test_what_cannot_be_connected_is_422(owner: Account, local: LocalHost):
    assert refusal(connect(owner, local, url="https://github.com/acme/web")) == (422, "repo_connect_refused")
    assert refusal(connect(owner, local, token="a b")) == (422, "invalid_body")
    assert refusal(connect(owner, local, provider="cvs")) == (422, "repo_connect_refused")


def test_a_fault_of_the_host_is_502(owner: Account, local: LocalHost):
    local.faults = [Reply(200, {"version": "12"}), Reply(500)]
    assert refusal(connect(owner, local)) == (502, "source_host_failed")


def test_a_repository_of_another_organization_is_409(owner: Account, local: LocalHost):
    connect(owner, local)
    other = owner.world.sign_up("eve@example.org")
    assert refusal(connect(other, local)) == (409, "repo_connected_elsewhere")


def test_another_organizations_repository_is_not_found(owner: Account, local: LocalHost):
    connected, other = connect(owner, local).json["id"], owner.world.sign_up("eve@example.org")
    assert refusal(other.client.simulate_delete(f"{other.path}/repos/{connected}")) == (404, "repo_not_found")


def test_a_delivery_of_millions_of_values_is_not_parsed(owner: Account, local: LocalHost):
    """Its repository is named in it, so it would be parsed before its signature is checked."""
    body = b'{"repository": {"id": 1}, "x": [' + b"[0]," * 1_000_001 + b"0]}"
    answered = owner.world.anonymous.simulate_post("/webhooks/forgejo", body=body)
    assert refusal(answered) == (413, "body_too_large")


def test_a_signed_delivery_is_accepted_once(owner: Account, local: LocalHost):
    connect(owner, local)
    server = local.host
    assert isinstance(server, ForgejoServer)
    body = json.dumps({"repository": {"id": server.id}}).encode()
    client, headers = testing.TestClient(owner.world.app), server.headers("push", body)
    answers = [client.simulate_post("/webhooks/forgejo", body=body, headers=headers) for _ in range(2)]
    assert [(each.status_code, each.json["status"]) for each in answers] == [(202, "accepted"), (200, "duplicate")]
    other = client.simulate_post("/webhooks/forgejo", body=body + b" ", headers=headers)
    assert refusal(other) == (401, "delivery_signature_invalid")
    elsewhere = client.simulate_post("/webhooks/gitea", body=body, headers=headers)
    assert refusal(elsewhere) == (401, "delivery_signature_invalid")
    assert refusal(client.simulate_post("/webhooks/forgejo", body=body)) == (400, "delivery_event_missing")
