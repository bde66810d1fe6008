"""Workspaces at a real server that answers as Bitbucket does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.source_hosts import BitbucketSettings, ConnectRefused, DeliveryInvalid, DeliveryUnsigned, HostError
from actors.source_hosts.host import FOUND_OPEN, CommitReport, PushedRef, ReportState, Skip
from storage import CommitCheck, HostConnectedElsewhere, Storage
from tests.actors.source_hosts.forges import report
from tests.clock import ManualClock
from tests.forges.bitbucket import ANN, REQUEST, WEB, BitbucketServer
from tests.forges.deliveries import changed, document
from tests.forges.server import Reply
from tests.forges.workspaces import WEBHOOK, Connected, bitbucket
from tests.records import new_owner


@pytest.fixture
def org(storage: Storage) -> int:
    return new_owner(storage).organization.id


@pytest.fixture
def host(storage: Storage, clock: ManualClock, tmp_path: Path) -> Iterator[Connected]:
    with bitbucket(storage, clock, tmp_path / "bitbucket", BitbucketServer()) as host:
        yield host


def push(host: Connected) -> tuple[dict[str, str], bytes]:
    body = changed("bitbucket-push", {"repository.uuid": WEB})
    return {name.upper(): value for name, value in host.server.headers("repo:push", body).items()}, body


def test_a_workspace_brings_its_repositories_and_their_webhooks(host: Connected, org: int, storage: Storage):
    host.server.repositories |= {f"{{{number:036}}}": f"lib{number}" for number in range(4)}
    (connection,) = host.workspaces.connect(org, host.server.code)
    assert (connection.account, host.server.hooks) == ("acme", {}), "it asked for each repository in a request"
    host.process()
    found = host.workspaces.repositories(connection)
    assert {each.repo_name for each in found} == {"acme/web", *(f"acme/lib{number}" for number in range(4))}
    assert {each.url for each in found} == {f"{host.local.url}/{each.repo_name}.git" for each in found}
    secrets = [hook["secret"] for hooks in host.server.hooks.values() for hook in hooks.values()]
    assert len(set(secrets)) == 5


def test_open_pull_requests_are_those_that_it_reports(host: Connected, org: int):
    """One of a repository that is gone, or of a branch that is no ref, is left out."""
    repository, found = host.connect(org), document("bitbucket-pull-request")["pullrequest"]
    gone = {**found, "source": {**found["source"], "repository": None}}
    odd = {**found, "source": {**found["source"], "branch": {"name": "a b"}}}
    host.server.pulls = [gone, odd, found]
    (change,) = host.host.open_pull_requests(repository)
    assert (change.number, change.action, change.sender) == (found["id"], FOUND_OPEN, None)
    assert change.head_commit == found["source"]["commit"]["hash"]
    assert change.url == f"{host.local.url}/{found['source']['repository']['full_name']}.git"


def test_tokens_are_kept_sealed(host: Connected, org: int, storage: Storage):
    host.connect(org)
    files = [each.read_bytes() for each in storage.directory.rglob("*") if each.is_file()]
    assert not [each for each in files if b"access-1" in each]


def test_an_access_token_is_renewed_before_it_expires(host: Connected, org: int, clock: ManualClock):
    repository = host.connect(org)
    for minutes, refreshes in ((114, 0), (2, 1), (0, 1)):
        clock.advance(minutes=minutes)
        credential = host.host.credential(repository)
        assert credential is not None
        assert (credential.username, credential.password) == ("x-token-auth", f"access-{refreshes + 1}")
        assert host.server.refreshes == refreshes


def test_a_revoked_connection_says_so(host: Connected, org: int, clock: ManualClock):
    repository = host.connect(org)
    host.server.refresh_token = "revoked"
    clock.advance(hours=3)
    with pytest.raises(HostError, match="no longer lets the service in: connect the workspace again"):
        host.host.credential(repository)


def test_a_code_is_valid_once(host: Connected, org: int):
    code = host.server.code
    host.workspaces.connect(org, code)
    with pytest.raises(HostError, match="answers 400"):
        host.workspaces.connect(org, code)


def test_only_administrators_connect_a_workspace(host: Connected, org: int, storage: Storage):
    host.server.administrator = False
    with pytest.raises(ConnectRefused, match="you administrate no workspace"):
        host.workspaces.connect(org, host.server.code)
    assert storage.host_connections.of_provider("bitbucket") == []


def test_a_workspace_belongs_to_one_organization(host: Connected, org: int, storage: Storage):
    host.connect(org)
    host.server.code = "another"
    with pytest.raises(HostConnectedElsewhere):
        host.workspaces.connect(new_owner(storage, "eve@example.org").organization.id, "another")


def test_disconnecting_removes_webhooks_and_repositories(host: Connected, org: int, storage: Storage):
    host.connect(org)
    host.server.hooks["acme/web"]["{own}"] = {"uuid": "{own}", "url": "https://other.example.org"}
    (connection,) = host.workspaces.of_organization(org)
    host.workspaces.disconnect(connection)
    assert host.workspaces.of_organization(org) == []
    host.process()
    assert list(host.server.hooks["acme/web"]) == ["{own}"]
    assert storage.repositories.all() == storage.host_connections.of_provider("bitbucket") == []


def test_connecting_again_in_between_keeps_it(host: Connected, org: int, storage: Storage):
    repository = host.connect(org)
    host.workspaces.disconnect(host.workspaces.of_organization(org)[0])
    host.server.code = "another"
    host.workspaces.connect(org, "another")
    host.process()
    assert storage.repositories.all() == [repository]
    assert [each["url"] for each in host.server.hooks["acme/web"].values()] == [WEBHOOK]


def test_a_revoked_workspace_can_be_disconnected(host: Connected, org: int, storage: Storage, clock: ManualClock):
    host.connect(org)
    host.workspaces.disconnect(host.workspaces.of_organization(org)[0])
    host.server.refresh_token = host.server.access_token = "revoked"
    clock.advance(hours=3)
    host.process()
    assert storage.host_connections.of_provider("bitbucket") == []


def test_what_fails_is_done_later(host: Connected, org: int, storage: Storage):
    host.workspaces.connect(org, host.server.code)
    host.local.faults = [Reply(429, {}, {"Retry-After": "30"})]
    with pytest.raises(HostError, match="asks to wait") as caught:
        host.process()
    assert caught.value.retry_after == 30
    host.process()
    assert [each["url"] for each in host.server.hooks["acme/web"].values()] == [WEBHOOK]


def test_a_new_repository_is_found_within_an_hour(host: Connected, org: int, clock: ManualClock):
    host.connect(org)
    host.server.repositories["{new}"] = "new"
    for minutes, count in ((59, 1), (2, 2)):
        clock.advance(minutes=minutes)
        host.workspaces.repositories(host.workspaces.of_organization(org)[0])
        host.process()
        assert len(host.workspaces.repositories(host.workspaces.of_organization(org)[0])) == count
    assert len(host.server.hooks["acme/web"]) == len(host.server.hooks["acme/new"]) == 1


def test_a_new_repository_is_found_at_the_next_start(host: Connected, org: int):
    host.connect(org)
    host.server.repositories["{api}"] = "api"
    host.host.reconcile()
    host.process()
    assert [each.repo_name for each in host.storage.repositories.of_organization(org)] == ["acme/api", "acme/web"]


def test_a_signed_delivery_reports_its_push(host: Connected, org: int, storage: Storage):
    repository, (headers, body) = host.connect(org), push(host)
    received = host.host.receive(headers, body)
    assert (received.repository, received.delivery_id) == (repository, f"{repository.uuid}/{REQUEST}")
    storage.deliveries.receive("bitbucket", received.event, received.delivery_id, repository, body)
    (event,) = host.host.events(storage.deliveries.pending(repository.id)[0])
    assert isinstance(event, PushedRef)
    assert event.ref == "refs/heads/name-of-branch"


def test_a_forged_delivery_is_refused(host: Connected, org: int):
    host.connect(org)
    headers, body = push(host)
    for name, value in (("X-HUB-SIGNATURE", ""), ("X-HUB-SIGNATURE", "sha1=00"), ("X-HUB-SIGNATURE", "sha256=")):
        with pytest.raises(DeliveryUnsigned):
            host.host.receive({**headers, name: value}, body)
    with pytest.raises(DeliveryUnsigned):
        host.host.receive(headers, body.replace(b"master", b"evil-x") + b" ")
    for name in ("X-EVENT-KEY", "X-REQUEST-UUID"):
        with pytest.raises(DeliveryInvalid):
            host.host.receive({key: value for key, value in headers.items() if key != name}, body)


def test_no_secret_speaks_for_another_repository(host: Connected, org: int):
    host.server.repositories["{lib}"] = "lib"
    host.connect(org)
    body = changed("bitbucket-push", {"repository.uuid": "{lib}"})
    headers = {name.upper(): value for name, value in host.server.headers("repo:push", body, name="web").items()}
    with pytest.raises(DeliveryUnsigned):
        host.host.receive(headers, body)


def test_who_may_push_is_asked_by_id(host: Connected, org: int):
    repository = host.connect(org)
    host.server.permissions["{00000000-0000-4000-8000-000000000000}"] = "read"
    assert host.host.trusts(repository, ANN)
    for user in ("{00000000-0000-4000-8000-000000000000}", "{00000000-0000-4000-8000-000000000001}", "ann", '"'):
        assert not host.host.trusts(repository, user), user


def test_a_commit_shows_the_state_of_its_build(host: Connected, org: int, storage: Storage):
    repository = host.connect(org)
    for state, shown in ((ReportState.RUNNING, "INPROGRESS"), (ReportState.CANCELED, "STOPPED")):
        assert host.host.report(repository, report(storage, repository, state)) == "ci/ci"
        assert (host.server.statuses[-1]["state"], host.server.statuses[-1]["key"]) == (shown, "ci/ci")
    assert len(host.server.statuses[-1]["key"]) <= 40
    host.host.report_skip(
        repository, Skip("ci", "c0ffee" * 6 + "c0ff", "no file has changed", "https://ci.example.org")
    )
    status = host.server.statuses[-1]
    told = "SUCCESSFUL", "ci/ci", "Skipped: no file has changed"
    assert (status["state"], status["key"], status["description"]) == told


def test_one_status_shows_all_pipelines_of_a_commit(host: Connected, org: int):
    repository, commit = host.connect(org), "c0ffee" * 6 + "c0ff"
    check = CommitReport(commit, ReportState.FAILED, "Failed: ci", "https://ci.example.org")
    assert host.host.report_commit(repository, check, CommitCheck(1, 1, commit, None, "", None, 0)) == "ci-daemon"
    status = host.server.statuses[-1]
    assert (status["state"], status["key"], status["description"]) == ("FAILED", "ci-daemon", "Failed: ci")


def test_addresses_are_https_or_of_this_host():
    for url in ("https://bitbucket.example", "http://127.0.0.1:7990", "http://localhost:7990", "http://[::1]:7990"):
        assert BitbucketSettings(url=url, api_url=url).url == url
    for url in (
        "http://bitbucket.example",
        "http://127.0.0.1.example",
        "https://bitbucket.example/",
        "ftp://localhost",
    ):
        with pytest.raises(ValueError, match="must be an https:// URL, or http:// to this host"):
            BitbucketSettings(url=url)
