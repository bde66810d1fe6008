"""Installations in the API: bound with proof, by one organization, and seen by its members alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from falcon import testing

from actors.source_hosts import GithubApi, Installations
from api import HttpSettings
from storage import ProvenIdentity, SignUpPolicy, Storage
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.github_server import Fault, GithubServer


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with GithubServer.serving() as github:
        github.install(7, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
        github.users, github.roles = {1: "ada"}, {("acme", "ada"): "admin"}
        yield github


@pytest.fixture
def installations(storage: Storage, clock: ManualClock, github: GithubServer, tmp_path: Path) -> Installations:
    return Installations(storage, GithubApi(github.settings(tmp_path / "app.pem"), clock), sign_in_proves=True)


def owner(world: World, name: str, subject: str | None) -> Account:
    """Return an account that has signed in with GitHub, if there is a subject."""
    account = world.sign_up(f"{name}@example.org", name)
    if subject is not None:
        proven = ProvenIdentity("github", subject, account.email, verified=True, name="")
        world.storage.identities.sign_in(proven, SignUpPolicy())
    return account


@pytest.fixture
def github_world(storage: Storage, clock: ManualClock, installations: Installations) -> World:
    return World.create(storage, clock, HttpSettings(), installations=installations)


def bind(account: Account, number: object = 7) -> testing.Result:
    return account.client.simulate_post(f"{account.path}/github/installations", json={"installation_id": number})


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_an_owner_binds_sees_and_unbinds_an_installation(github_world: World, github: GithubServer):
    ada = owner(github_world, "Ada", "1")
    bound = bind(ada)
    assert bound.status_code == 201
    assert bind(ada).json == bound.json
    path = f"{ada.path}/github/installations"
    assert ada.client.simulate_get(path).json == {"data": [bound.json]}
    (repo,) = ada.client.simulate_get(f"{path}/7/repos").json["data"]
    assert (repo["gh_repo_id"], repo["full_name"], repo["owner"], repo["name"]) == (701, "acme/web", "acme", "web")
    (summary,) = ada.client.simulate_get(f"{ada.path}/repos").json["data"]
    assert summary["registrations"] == [{"provider": "github", "account": "acme"}]
    assert summary["clone_url"] == repo["clone_url"] == "https://github.example/acme/web.git"
    github.installations[7].add(702, "acme/api", "https://github.example/acme/api.git")
    assert ada.client.simulate_post(f"{path}/7/sync").status_code == 200
    listed = ada.client.simulate_get(f"{ada.path}/repos").json["data"]
    assert [each["full_name"] for each in listed] == ["acme/api", "acme/web"]
    assert ada.client.simulate_delete(f"{path}/7").status_code == 204
    assert ada.client.simulate_get(f"{ada.path}/repos").json == {"data": []}
    assert ada.client.simulate_delete(f"{path}/7").status_code == 204
    assert ada.client.simulate_get(f"{path}/7/repos").json == {"data": []}


def test_without_proof_there_is_no_installation(github_world: World, github: GithubServer):
    for name, subject in (("Eve", "2"), ("Mal", None)):
        assert code(bind(owner(github_world, name, subject))) == (404, "github_installation_not_found")
    assert code(bind(owner(github_world, "Ada", "1"), 8)) == (404, "github_installation_not_found")


def test_an_installation_is_bound_once(github_world: World, github: GithubServer):
    ada, ben = owner(github_world, "Ada", "1"), owner(github_world, "Ben", "2")
    github.users[2], github.roles["acme", "ben"] = "ben", "admin"
    bind(ada)
    assert code(bind(ben)) == (409, "github_installation_bound_elsewhere")
    path = f"{ben.path}/github/installations/7"
    assert code(ben.client.simulate_post(f"{path}/sync")) == (404, "github_installation_not_found")
    assert ben.client.simulate_get(f"{path}/repos").json == {"data": []}
    assert ben.client.simulate_delete(path).status_code == 204
    assert ada.client.simulate_post(f"{ada.path}/github/installations/7/sync").status_code == 200


def test_an_installation_may_be_named_by_a_string(github_world: World):
    assert bind(owner(github_world, "Ada", "1"), "7").json["installation_id"] == 7


@pytest.mark.parametrize("name", ["", "x", "7.0", "-7", " 7", "1" * 17, 7.5, True, None])
def test_what_names_no_installation_is_refused(github_world: World, name: object):
    assert bind(owner(github_world, "Ada", "1"), name).status_code == 422


@pytest.mark.parametrize("number", [0, -1, 2**53])
def test_a_number_of_no_installation_is_refused(github_world: World, number: int):
    assert code(bind(owner(github_world, "Ada", "1"), number)) == (422, "github_installation_id_invalid")


def test_what_github_says_is_passed_on(github_world: World, github: GithubServer):
    ada = owner(github_world, "Ada", "1")
    github.faults = [Fault(502, message="Unicorn")]
    answered = bind(ada)
    assert code(answered) == (503, "github_sync_failed")
    assert "Unicorn" in answered.json["error"]["message"]
    bind(ada)
    del github.installations[7]
    sync = f"{ada.path}/github/installations/7/sync"
    assert code(ada.client.simulate_post(sync)) == (404, "github_installation_not_found")
    assert ada.client.simulate_get(f"{ada.path}/repos").json == {"data": []}


def test_without_an_app_nothing_is_bound(storage: Storage, clock: ManualClock):
    ada = World.create(storage, clock, HttpSettings()).sign_up("ada@example.org")
    assert code(bind(ada)) == (503, "github_not_configured")
