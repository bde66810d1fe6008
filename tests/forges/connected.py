"""Forges as the service uses them, and a repository that is connected to one."""

from __future__ import annotations

from collections.abc import Sequence

from actors.source_hosts import ForgeHost, Forgejo, GitLab, WebhookSecrets
from actors.source_hosts.forge_host import ForgeToken
from storage import NewHostConnection, RemoteRepository, Repository, Storage
from tests.forges.server import LOOPBACK, LocalHost

TOKEN = "fj-token"


def forges(storage: Storage, local: LocalHost, networks: Sequence[str] = LOOPBACK) -> dict[str, ForgeHost]:
    """Return all forges, in a network in which a local host is trusted if it is in one of these."""
    network, secrets = local.network(*networks), WebhookSecrets(storage)
    kinds = (Forgejo("forgejo"), Forgejo("gitea"), GitLab())
    return {each.provider: ForgeHost(storage, secrets, network, each) for each in kinds}


def connected(storage: Storage, organization_id: int, local: LocalHost) -> Repository:
    """Return a repository that is connected, without asking its host, which has another of these ids."""
    sealed = ForgeToken(root=local.url, token=TOKEN, anywhere=False).model_dump_json().encode()
    new = NewHostConnection(organization_id, "forgejo", f"{local.url}#1", "ci-bot", "token", "acme/lib", sealed)
    remote = RemoteRepository("1", f"{local.url}/acme/lib.git", "acme/lib", "main", private=True)
    return storage.repositories.put_remote(storage.host_connections.connect(new), remote)
