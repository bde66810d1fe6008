"""Accounts at source hosts and the repositories that they bring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storage import (
    Declaration,
    DeclaringRepository,
    HostConnectedElsewhere,
    HostConnection,
    NewHostConnection,
    Pipeline,
    RemoteRepository,
    Storage,
)
from tests.records import new_owner

WEB = RemoteRepository("1", "https://host.example.org/acme/web.git", "acme/web", "main", private=True)
API = RemoteRepository("2", "https://host.example.org/acme/api.git", "acme/api", None, private=False)


@pytest.fixture
def connection(storage: Storage) -> HostConnection:
    organization_id = new_owner(storage).organization.id
    return storage.host_connections.connect(NewHostConnection(organization_id, "github", "7", "acme", "Organization"))


def names(storage: Storage, connection: HostConnection) -> list[str]:
    return [each.repo_name for each in storage.repositories.of_connection(connection.id)]


def test_an_account_belongs_to_one_organization(storage: Storage, connection: HostConnection):
    again = NewHostConnection(connection.organization_id, "github", "7", "acme-inc", "Organization")
    assert storage.host_connections.connect(again).account == "acme-inc"
    user = storage.users.create("eve@example.org", "Eve")
    other = storage.organizations.create("Other", "", user.id)
    with pytest.raises(HostConnectedElsewhere):
        storage.host_connections.connect(replace(again, organization_id=other.id))
    assert [each.id for each in storage.host_connections.of_provider("github")] == [connection.id]
    assert storage.host_connections.of_organization(other.id, "github") == []


def test_a_credential_is_sealed_for_its_connection(storage: Storage, connection: HostConnection):
    assert storage.host_connections.credential(connection) is None
    storage.host_connections.set_credential(connection, b"a token")
    assert storage.host_connections.credential(connection) == b"a token"
    files = [each.read_bytes() for each in storage.directory.iterdir() if each.is_file()]
    assert not any(b"a token" in each for each in files)


def test_repositories_follow_the_host(storage: Storage, connection: HostConnection):
    storage.repositories.follow(connection, [WEB, API])
    web, _ = storage.repositories.of_connection(connection.id)
    storage.repository_checks.record_heads(web, {"refs/heads/main": "c0ffee"})
    renamed = replace(WEB, url="https://host.example.org/acme/site.git", repo_name="acme/site")
    storage.repositories.follow(connection, [renamed])
    assert names(storage, connection) == ["acme/site"]
    assert storage.repository_checks.heads(web.id) == {"refs/heads/main": "c0ffee"}
    storage.host_connections.remove(connection)
    assert storage.repositories.all() == []


def test_a_repository_connected_by_url_joins_its_account(storage: Storage, connection: HostConnection):
    plain = storage.repositories.connect(connection.organization_id, WEB.url, "acme/web", 60)
    (joined,) = storage.repositories.follow(connection, [WEB])
    assert (joined.id, joined.provider, joined.remote_id) == (plain.id, "github", "1")


def test_a_name_that_went_to_another_repository(storage: Storage, connection: HostConnection):
    storage.repositories.follow(connection, [WEB, API])
    storage.repositories.follow(connection, [replace(API, url=WEB.url, repo_name="acme/web")])
    (left,) = storage.repositories.of_connection(connection.id)
    assert (left.remote_id, left.url) == ("2", WEB.url)


def declared(storage: Storage, connection: HostConnection, remote: RemoteRepository) -> Pipeline:
    repository = DeclaringRepository(connection.organization_id, remote.repo_name, remote.url)
    return storage.declarations.register(repository, "ci", "main", Declaration("ci", allow_manual=True, triggers=()))


def test_two_repositories_exchange_their_names(storage: Storage, connection: HostConnection):
    web, api = storage.repositories.follow(connection, [WEB, API])
    storage.repository_checks.record_heads(web, {"refs/heads/main": "c0ffee"})
    of_web, of_api = (declared(storage, connection, each) for each in (WEB, API))
    storage.repositories.follow(
        connection,
        [
            replace(WEB, url=API.url, repo_name=API.repo_name),
            replace(API, url=WEB.url, repo_name=WEB.repo_name),
        ],
    )
    assert [(each.id, each.repo_name) for each in storage.repositories.of_connection(connection.id)] == [
        (web.id, "acme/api"),
        (api.id, "acme/web"),
    ]
    assert storage.repository_checks.heads(web.id) == {"refs/heads/main": "c0ffee"}
    for pipeline, name, url in ((of_web, "acme/api", API.url), (of_api, "acme/web", WEB.url)):
        moved = storage.pipelines.by_id(pipeline.id)
        assert moved is not None
        assert (moved.repo_name, moved.repository) == (name, url)


def test_a_repository_moves_between_accounts_of_an_organization(storage: Storage, connection: HostConnection):
    (web,) = storage.repositories.follow(connection, [WEB])
    new = NewHostConnection(connection.organization_id, "github", "8", "acme-labs", "Organization")
    labs = storage.host_connections.connect(new)
    moved = replace(WEB, url="https://host.example.org/acme-labs/web.git", repo_name="acme-labs/web")
    (found,) = storage.repositories.follow(labs, [moved])
    assert (found.id, found.url) == (web.id, moved.url)
    assert names(storage, connection) == []

    other = storage.organizations.create("Other", "", storage.users.create("eve@example.org", "Eve").id)
    far = storage.host_connections.connect(NewHostConnection(other.id, "github", "9", "far", "Organization"))
    (elsewhere,) = storage.repositories.follow(far, [moved])
    assert elsewhere.id != web.id
    assert names(storage, labs) == ["acme-labs/web"]


def test_a_suspended_account_is_resumed(storage: Storage, connection: HostConnection):
    storage.host_connections.suspend(connection)
    (suspended,) = storage.host_connections.of_provider("github")
    assert suspended.suspended_at is not None
    storage.host_connections.resume(connection)
    assert storage.host_connections.of_provider("github")[0].suspended_at is None
