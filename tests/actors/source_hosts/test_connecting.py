"""Connecting repositories at real servers that answer as Forgejo, Gitea and GitLab do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from actors.source_hosts import ConnectRefused, HostError, RepositoryConnector
from storage import GitCredential, HostConnectedElsewhere, Storage
from tests.actors.source_hosts.forges import SERVICE, Forged, forged
from tests.forges.connected import forges
from tests.forges.server import Reply
from tests.records import new_owner


def test_the_host_is_asked_what_it_is(forge: Forged, org: int):
    repository = forge.connect(org)
    assert (repository.provider, repository.remote_id) == (forge.kind, str(forge.server.id))
    assert (repository.url, repository.default_branch) == (f"{forge.url}.git", "main")
    assert repository.private


def test_the_webhook_has_a_secret_of_its_own(forge: Forged, org: int):
    forge.connect(org)
    (hook,) = forge.server.hooks.values()
    config = hook.get("config", hook)
    assert config["url"] == f"{SERVICE}/webhooks/{forge.kind}"
    assert len(config.get("secret") or config["token"]) == 64


def test_the_token_is_kept_sealed(forge: Forged, org: int, storage: Storage):
    repository = forge.connect(org)
    connection = storage.host_connections.of_organization(org, forge.kind)[0]
    assert (connection.account, connection.name) == ("ci-bot", forge.server.path)
    assert forge.server.token not in repr((connection, repository))
    assert forge.host.credential(repository).password == forge.server.token  # type: ignore[union-attr]
    files = [each for each in (storage.directory).rglob("*") if each.is_file()]
    assert not [each for each in files if forge.server.token.encode() in each.read_bytes()]


def test_connecting_again_replaces_token_and_webhook(forge: Forged, org: int):
    first = forge.connect(org)
    forge.server.token = "another"
    again = forge.connect(org)
    assert again.id == first.id
    assert len(forge.server.hooks) == 1
    assert forge.host.credential(again).password == "another"  # type: ignore[union-attr]


def test_removing_it_removes_its_webhook(forge: Forged, org: int, storage: Storage):
    forge.server.hooks[7] = {
        "id": 7,
        "url": "https://other.example.org",
        "config": {"url": "https://other.example.org"},
    }
    repository = forge.connect(org)
    assert forge.connector.disconnect(repository) is None
    assert list(forge.server.hooks) == [7]
    assert storage.repositories.all() == []
    assert storage.host_connections.of_provider(forge.kind) == []


def test_it_is_removed_though_the_host_is_away(forgejo: Forged, org: int, storage: Storage):
    repository = forgejo.connect(org)
    forgejo.local.faults = [Reply(500)]
    assert "answers 500" in (forgejo.connector.disconnect(repository) or "")
    assert storage.repositories.all() == []


def test_a_host_may_be_below_a_path(storage: Storage, org: int, tmp_path: Path):
    with forged("gitea", storage, tmp_path / "forge", root="/git") as forge:
        assert forge.connect(org).url == f"{forge.local.url}/git/acme/web.git"


def test_a_clone_url_is_never_the_hosts_claim(forgejo: Forged, org: int):
    """The stand-in answers with a path of this host: nothing of that is stored."""
    assert forgejo.connect(org).url.startswith(forgejo.local.url)


@pytest.mark.parametrize("path", ["../../etc", "acme", "acme/we b", "-x/web", "acme/web?x", "a//etc/passwd", ""])
def test_a_hostile_name_is_refused(forgejo: Forged, org: int, path: str, storage: Storage):
    url = forgejo.url
    forgejo.server.repository = lambda: {"id": 1, "full_name": path, "private": True, "permissions": {"admin": True}}  # type: ignore[method-assign,union-attr]
    with pytest.raises(ConnectRefused, match="no usable name"):
        forgejo.connector.connect(org, url, "fj-token")
    assert storage.repositories.all() == []


@pytest.mark.parametrize(
    "url",
    [
        "http://git.example.org/acme/web",
        "https://user:pass@git.example.org/acme/web",
        "https://git.example.org/acme/web?x=1",
        "https://git.example.org/acme",
        "https://git.example.org/../acme/web",
        "https://git.example.org\\@localhost/acme/web",
        "https://git.example.org:0/acme/web",
        "https://git.example.org:99999/acme/web",
        "file:///etc/passwd",
        "/srv/git/web.git",
        "git@git.example.org:acme/web.git",
        "https://github.com/acme/web",
        "https://bitbucket.org/acme/web",
    ],
)
def test_an_address_that_is_none_is_refused_unasked(forgejo: Forged, org: int, url: str):
    with pytest.raises(ConnectRefused):
        forgejo.connect(org, url=url)
    assert forgejo.local.asked == []


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Injected: 1", "ä"])
def test_a_token_that_would_break_a_header_is_refused(forgejo: Forged, org: int, token: str):
    with pytest.raises(ConnectRefused, match="the token"):
        forgejo.connect(org, token=token)
    assert forgejo.local.asked == []


def test_a_wrong_token_is_said(forge: Forged, org: int, storage: Storage):
    with pytest.raises(HostError, match="refuses the token"):
        forge.connect(org, token="wrong")
    assert storage.host_connections.of_provider(forge.kind) == []


def test_who_only_reads_cannot_connect(storage: Storage, org: int, tmp_path: Path):
    with forged("forgejo", storage, tmp_path / "a", admin=False) as forgejo, pytest.raises(ConnectRefused):
        forgejo.connect(org)
    with forged("gitlab", storage, tmp_path / "b", access_level=30) as gitlab, pytest.raises(ConnectRefused):
        gitlab.connect(org)


def test_another_organization_cannot_have_it_too(forgejo: Forged, org: int, storage: Storage):
    forgejo.connect(org)
    other = new_owner(storage, "other@example.org").organization.id
    with pytest.raises(HostConnectedElsewhere):
        forgejo.connect(other)
    assert len(forgejo.server.hooks) == 1


def test_nothing_stays_if_the_webhook_cannot_be_made(forgejo: Forged, org: int, storage: Storage):
    answer = forgejo.server.answer
    refusal = Reply(422, {"message": "webhook URL is not allowed"})
    forgejo.server.answer = lambda asked: refusal if str(asked).startswith("POST") else answer(asked)  # type: ignore[method-assign]
    with pytest.raises(HostError, match=r"answers 422: .*webhook URL is not allowed"):
        forgejo.connect(org)
    assert storage.repositories.all() == []


def test_a_server_that_is_no_forge_is_refused(forgejo: Forged, org: int):
    forgejo.server.answer = lambda _: Reply(404)  # type: ignore[method-assign]
    with pytest.raises(ConnectRefused, match="does not answer as forgejo or gitea or gitlab"):
        forgejo.connect(org)


def test_an_admin_cannot_reach_private_networks(forgejo: Forged, org: int, storage: Storage):
    """The owner of the service may: by a command, or for all admins by the configuration."""
    hosts = forges(storage, forgejo.local, networks=())
    far = replace(forgejo, hosts=hosts, connector=RepositoryConnector(storage, hosts, SERVICE))
    with pytest.raises(HostError, match=r"has no public address: .*repositories\.networks"):
        far.connect(org)
    assert far.local.asked == []
    repository = far.connect(org, anywhere=True)
    assert far.host.trusts(repository, "ann"), "a later request is refused"


def test_a_repository_of_no_forge_is_not_disconnected_here(storage: Storage, org: int):
    plain = storage.repositories.connect(org, "/srv/git/web.git", "git/web", 60)
    with pytest.raises(ConnectRefused):
        RepositoryConnector(storage, {}, SERVICE).disconnect(plain)


def test_the_heads_of_then_are_known_before_the_webhook_is(forge: Forged, org: int, storage: Storage):
    """A push that follows at once is built, although its report may be lost."""

    def heads(url: str, credential: GitCredential) -> dict[str, str]:
        assert (url, credential.password, forge.server.hooks) == (f"{forge.url}.git", forge.server.token, {})
        return {"refs/heads/main": "c0ffee"}

    connector = RepositoryConnector(storage, forge.hosts, SERVICE, heads)
    repository, _ = connector.connect(org, forge.url, forge.server.token)
    assert storage.repository_checks.heads(repository.id) == {"refs/heads/main": "c0ffee"}
