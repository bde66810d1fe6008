"""Installations: the records are what GitHub has, whatever was reported in which order."""

from __future__ import annotations

import pytest

from actors.source_hosts import Github, GithubApi, GithubAppSettings, GithubNotFound
from actors.source_hosts.host import HostError
from storage import HostConnectedElsewhere
from tests.actors.source_hosts.github.conftest import App
from tests.clock import ManualClock
from tests.github_server import Fault
from tests.records import new_owner


def names(app: App) -> list[str]:
    return [each.repo_name for each in app.repositories()]


def test_binding_mirrors_every_page_of_repositories(app: App):
    for number in range(250):
        app.server.installations[7].add(
            1000 + number, f"acme/r{number:03}", f"https://github.example/acme/r{number}.git"
        )
    connection = app.bound()
    assert (connection.account, connection.account_type, connection.remote_id) == ("acme", "Organization", "7")
    assert len(app.repositories()) == 251
    assert app.bound() == app.storage.host_connections.get(connection.id)


def test_an_installation_belongs_to_one_organization(app: App):
    app.bound()
    other = new_owner(app.storage, "eve@example.org", "Eve").organization.id
    with pytest.raises(HostConnectedElsewhere):
        app.host.installations.bind(other, 7, None)


def test_owners_of_the_account_may_bind_it(app: App):
    app.server.users = {1: "ada", 2: "ben"}
    app.server.roles = {("acme", "ada"): "admin", ("acme", "ben"): "member"}
    app.server.install(8, "ada", 1, "User")
    bind = app.host.installations.bind
    for subjects in ((), ("2",), ("3",), ("x/../1",)):
        with pytest.raises(GithubNotFound):
            bind(app.organization_id, 7, subjects)
    for subjects in ((), ("2",)):
        with pytest.raises(GithubNotFound):
            bind(app.organization_id, 8, subjects)
    with pytest.raises(GithubNotFound):
        bind(app.organization_id, 9, ("1",))
    assert app.storage.host_connections.of_provider("github") == []
    assert bind(app.organization_id, 7, ("2", "1")).account == "acme"
    assert bind(app.organization_id, 8, ("1",)).account == "ada"


def test_repositories_follow_github(app: App):
    app.bound()
    web = app.repositories()[0]
    app.storage.repository_checks.record_heads(web, {"refs/heads/main": "a" * 40})
    app.server.installations[7].repositories[0].update(
        full_name="acme/site", clone_url="https://github.example/acme/site.git", private=True
    )
    app.server.installations[7].add(702, "acme/api", "https://github.example/acme/api.git")
    app.deliver("repository", action="renamed")
    assert names(app) == ["acme/api", "acme/site"]
    renamed = app.repositories()[1]
    assert (renamed.uuid, renamed.url, renamed.private) == (web.uuid, "https://github.example/acme/site.git", True)
    assert app.storage.repository_checks.heads(renamed.id) == {"refs/heads/main": "a" * 40}
    del app.server.installations[7].repositories[0]
    app.deliver("installation_repositories", action="removed")
    assert names(app) == ["acme/api"]


def test_what_was_never_reported_is_found_at_the_next_start(app: App):
    app.bound()
    web = app.repositories()[0]
    app.server.install(8, "ada", 71, "User").add(801, "ada/old", "https://github.example/ada/old.git")
    app.host.installations.bind(app.organization_id, 8, None)
    app.server.installations[7].repositories[0]["full_name"] = "acme/site"
    app.server.installations[7].add(702, "acme/api", "https://github.example/acme/api.git")
    del app.server.installations[8]
    app.host.reconcile()
    app.server.faults = [Fault(503)]
    with pytest.raises(HostError):
        app.process()
    assert app.process() == 2
    assert names(app) == ["acme/api", "acme/site"]
    assert app.repositories()[1].uuid == web.uuid
    assert [each.remote_id for each in app.storage.host_connections.of_provider("github")] == ["7"]


def test_a_service_that_is_no_app_looks_at_nothing(app: App, clock: ManualClock):
    app.bound()
    settings = GithubAppSettings()
    Github(app.storage, settings, GithubApi(settings, clock)).reconcile()
    assert app.process() == 0


@pytest.mark.parametrize("uninstalled", [False, True])
def test_a_transfer_that_the_old_account_reports_keeps_heads(app: App, *, uninstalled: bool):
    ours = app.server.installations[7]
    theirs = app.server.install(8, "acme-labs", 71)
    api = theirs.add(801, "acme-labs/api", "https://github.example/acme-labs/api.git")
    app.bound()
    app.host.installations.bind(app.organization_id, 8, None)
    before = {each.remote_id: each for each in app.repositories()}
    for each in before.values():
        app.storage.repository_checks.record_heads(each, {"refs/heads/main": each.remote_id or ""})
    ours.repositories, theirs.repositories = [api], ours.repositories
    if uninstalled:
        del app.server.installations[7]
    else:
        api.update(full_name="acme/api", clone_url="https://github.example/acme/api.git")
    theirs.repositories[0].update(full_name="acme-labs/web", clone_url="https://github.example/acme-labs/web.git")
    app.deliver("repository", action="transferred")
    after = {each.remote_id: each for each in app.repositories()}
    assert after["701"].repo_name == "acme-labs/web"
    if not uninstalled:
        assert after["801"].repo_name == "acme/api"
    for remote_id, each in after.items():
        assert each.id == before[str(remote_id)].id
        assert app.storage.repository_checks.heads(each.id) == {"refs/heads/main": remote_id}


@pytest.mark.parametrize("state", ["suspended", "uninstalled"])
def test_an_account_that_cannot_be_asked_gets_no_repository(app: App, state: str):
    app.bound()
    app.server.install(8, "acme-labs", 71)
    other = app.host.installations.bind(app.organization_id, 8, None)
    if state == "suspended":
        app.storage.host_connections.suspend(other)
        app.server.installations[8].suspended = True
    else:
        del app.server.installations[8]
    app.server.installations[7].repositories = []
    app.deliver("installation_repositories", action="removed")
    assert names(app) == []


def test_a_renamed_account_is_shown_by_its_new_name(app: App):
    app.bound()
    app.server.installations[7].account["login"] = "acme-inc"
    app.deliver("installation_target", action="renamed")
    assert app.storage.host_connections.of_provider("github")[0].account == "acme-inc"


def test_a_suspended_installation_rests_until_it_is_resumed(app: App):
    app.bound()
    app.server.installations[7].suspended = True
    app.deliver("installation", action="suspend")
    assert app.storage.host_connections.of_provider("github")[0].suspended_at is not None
    assert names(app) == ["acme/web"]
    app.server.installations[7].suspended = False
    app.deliver("installation", action="unsuspend")
    assert app.storage.host_connections.of_provider("github")[0].suspended_at is None


def test_an_uninstalled_app_leaves_no_records(app: App):
    app.bound()
    del app.server.installations[7]
    app.deliver("installation", action="deleted")
    assert app.storage.host_connections.of_provider("github") == []
    assert names(app) == []
    app.deliver("installation", action="deleted")


def test_installations_of_strangers_are_not_asked_about(app: App):
    app.deliver("installation", action="created")
    app.deliver("push", repository={"id": 701})
    assert app.server.asked == []


def test_a_push_to_a_new_repository_waits_for_its_record(app: App):
    app.bound()
    app.server.installations[7].add(702, "acme/api", "https://github.example/acme/api.git")
    app.deliver("push", repository={"id": 702})
    api = app.storage.repositories.of_remote("github", "702")[0]
    assert [each.event for each in app.storage.deliveries.pending(api.id)] == ["push"]
