"""Repositories and accounts at source hosts in the console, with hosts that answer as theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories import new_deploy_key
from actors.source_hosts import GithubApi, Installations, RepositoryConnector
from api import HttpSettings
from storage import ProvenIdentity, Role, SignUpPolicy, Storage
from tests.api.console.browser import Browser, main_of
from tests.api.world import Account, World
from tests.clock import ManualClock
from tests.forges.bitbucket import BitbucketServer
from tests.forges.connected import TOKEN, connected, forges
from tests.forges.forgejo import ForgejoServer
from tests.forges.server import LocalHost, serving
from tests.forges.workspaces import opened, workspace
from tests.github_server import GithubServer

LIST = "/ada-example-org/repositories"


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with GithubServer.serving() as github:
        github.install(7, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
        github.users, github.roles = {1: "ada"}, {("acme", "ada"): "admin"}
        yield github


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[LocalHost]:
    with serving(ForgejoServer(), tmp_path / "forge") as forge:
        yield forge


@pytest.fixture
def world(storage: Storage, clock: ManualClock, forge: LocalHost, github: GithubServer, tmp_path: Path) -> World:
    api = GithubApi(github.settings(tmp_path / "app.pem"), clock)
    return World.create(
        storage,
        clock,
        HttpSettings(base_url="https://ci.example.org"),
        connector=RepositoryConnector(storage, forges(storage, forge), "https://ci.example.org"),
        workspaces=opened(storage, clock, forge, BitbucketServer()).workspaces,
        installations=Installations(storage, api, sign_in_proves=True),
    )


def test_a_repository_is_connected_by_token_and_removed(ada: Account, forge: LocalHost):
    browser, form = Browser.of(ada), LIST[1:]
    connected = browser.send(LIST, f"{form}/connect", url=f"{forge.url}/acme/web", token=TOKEN, provider="")
    assert connected.headers["Location"] == "./../../ada-example-org/repositories"
    (repository,) = ada.world.storage.repositories.of_organization(ada.org_id)
    assert TOKEN not in browser.get(LIST).text
    page = f"{LIST}/{repository.uuid}"
    assert page[1:] in browser.get(LIST).text
    assert "/hook" not in browser.get(page).text
    browser.send(page, f"{page[1:]}/disconnect")
    assert "No repository is connected" in browser.get(LIST).text


def test_a_refused_token_is_said_on_a_page(ada: Account, forge: LocalHost):
    refused = Browser.of(ada).send(LIST, f"{LIST[1:]}/connect", url="https://github.com/ada/hello", token="x")
    assert (refused.status_code, "installs the GitHub app" in refused.text) == (422, True)


def test_deliveries_are_shown_and_processed_again(ada: Account, forge: LocalHost):
    browser, storage = Browser.of(ada), ada.world.storage
    repository = connected(storage, ada.org_id, forge)
    for number in range(31):
        storage.deliveries.receive("forgejo", "push", f"d-{number}", repository, b'{"a": "<b>"}\xff')
    page = f"{LIST}/{repository.uuid}"
    shown = browser.get(page).text
    assert shown.count("/redeliver") == 30
    older = re.search(r"\?before=(\d+)", shown)
    assert older is not None
    assert browser.get(f"{page}?before={older[1]}").text.count("/redeliver") == 1
    (first,) = storage.deliveries.latest(1)
    assert "&lt;b&gt;" in browser.get(f"{page}/deliveries/{first.uuid}").text
    storage.deliveries.processed(repository.id, [first])
    browser.send(page, f"{page[1:]}/deliveries/{first.uuid}/redeliver")
    again = storage.deliveries.find(first.uuid)
    assert again is not None
    assert again.processed_at is None


def test_a_plain_repository_shows_its_key_and_makes_a_hook(ada: Account):
    browser, storage = Browser.of(ada), ada.world.storage
    plain = storage.repositories.connect(ada.org_id, "git@git.example.org:acme/web.git", "acme/web", 60)
    key = new_deploy_key("acme/web", "ssh-ed25519 AAAA")
    storage.repository_credentials.put(plain, key)
    page = f"{LIST}/{plain.uuid}"
    assert key.public_key in browser.get(page).text.replace("&#43;", "+")
    assert "PRIVATE" not in browser.get(page).text
    hook = browser.send(page, f"{page[1:]}/hook").text
    assert "https://ci.example.org/webhooks/git" in hook
    token = re.search(r"Bearer ([\w-]{43})", hook)
    assert token is not None
    found = storage.repositories.by_token(token[1])
    assert found is not None
    assert found.uuid == plain.uuid
    browser.send(page, f"{page[1:]}/check")
    assert browser.send(page, f"{page[1:]}/disconnect").status_code == 303


def test_a_repository_shows_its_pipelines_and_how_they_stand(ada: Account):
    connect = ada.world.storage.repositories.connect
    demo = connect(ada.org_id, "https://example.org/acme/demo.git", "acme/demo", 60)
    other = connect(ada.org_id, "https://example.org/acme/other.git", "acme/other", 60)
    build = ada.pipeline("web").build()
    ada.pipeline("elsewhere", repository="https://example.org/acme/third.git")
    browser = Browser.of(ada)
    page = browser.get(f"/{ada.org}/repositories/{demo.uuid}").text
    assert build.path.partition("/organizations")[2] in page
    assert "elsewhere" not in page
    assert "None yet" in browser.get(f"/{ada.org}/repositories/{other.uuid}").text


def test_a_path_of_the_host_is_its_owners(ada: Account):
    browser, storage = Browser.of(ada), ada.world.storage
    path = storage.repositories.connect(ada.org_id, "/srv/git/web.git", "srv/web", 60)
    page = f"{LIST}/{path.uuid}"
    shown = browser.get(page).text
    assert "/disconnect" not in shown
    token = browser.fields(page, f"{page[1:]}/check")["form_token"]
    refused = {action: browser.post(f"{page}/{action}", {"form_token": token}) for action in ("disconnect", "hook")}
    assert {action: each.status_code for action, each in refused.items()} == {"disconnect": 422, "hook": 409}


@pytest.mark.parametrize("given", ["7", " https://github.com/organizations/acme/settings/installations/7/ "])
def test_an_installation_is_connected_synced_and_disconnected(ada: Account, given: str):
    browser, storage = Browser.of(ada), ada.world.storage
    storage.identities.sign_in(ProvenIdentity("github", "1", ada.email, verified=True, name=""), SignUpPolicy())
    assert browser.send(LIST, "ada-example-org/github/connect", installation_id=given).status_code == 303
    assert "installation 7 · 1 repository" in browser.get(LIST).text
    assert browser.send(LIST, "ada-example-org/github/7/sync").status_code == 303
    browser.send(LIST, "ada-example-org/github/7/disconnect")
    assert "No installation of the app is connected" in browser.get(LIST).text


def test_somebody_elses_installation_is_refused_on_a_page(ada: Account):
    for given, status in (("7", 404), ("x", 422), ("-1", 422)):
        refused = Browser.of(ada).send(LIST, "ada-example-org/github/connect", installation_id=given)
        assert (refused.status_code, "<h1>" in refused.text) == (status, True)


def test_a_workspace_is_disconnected(ada: Account):
    browser = Browser.of(ada)
    account = workspace(ada.world.storage, ada.org_id).account
    assert 'href="./../integrations/bitbucket?org=ada-example-org"' in browser.get(LIST).text
    browser.send(LIST, f"ada-example-org/bitbucket/{account}/disconnect")
    assert browser.get(LIST).status_code == 200


def test_members_look_and_admins_change(world: World, ada: Account, bob: Account, forge: LocalHost):
    repository = connected(ada.world.storage, ada.org_id, forge)
    page = f"{LIST}/{repository.uuid}"
    for each in (LIST, page):
        assert Browser.of(bob).get(each).status_code == 404
        assert Browser(world).get(each).status_code == 303
    bob.join(ada, Role.MEMBER)
    browser = Browser.of(bob)
    assert "<form" not in main_of(browser.get(LIST)) + main_of(browser.get(page))
    token = browser.fields("/account", "account/profile")["form_token"]
    for path in (f"{LIST}/connect", f"{page}/check", f"{page}/hook", f"{page}/disconnect"):
        assert browser.post(path, {"form_token": token, "url": "https://x.org/a/b", "token": "t"}).status_code == 403
