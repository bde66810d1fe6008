"""Connecting a repository by its URL and a token: which forge it is, and the webhook there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.source_hosts.forge_host import ForgeToken
from actors.source_hosts.host import ConnectRefused, HostError
from actors.timed_http import Deadline
from storage import NewHostConnection, RemoteRepository, repo_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.source_hosts.forge_host import ForgeHost, RepositoryAtForge
    from storage import GitCredential, HostConnection, Repository, Storage

_URL = re.compile(
    r"https://([A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?(/[!-~]{1,800})"
)
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}", re.ASCII)
_OTHERS = {
    "github.com": "its organization installs the GitHub app",
    "bitbucket.org": "its workspace is connected with OAuth",
}
_MOST_ROOTS = 2
_TIMEOUT = 40.0


class RepositoryConnector:
    """Connects repositories at forges, and disconnects them. It blocks. Safe in any thread.

    Args:
        storage: where connections are kept, with the token sealed.
        hosts: the forges by name, in the order in which they are tried.
        url: the address of this service, at which forges report.
        heads: returns the heads at a clone URL, or None if they cannot be read: the first look says why.
    """

    def __init__(
        self,
        storage: Storage,
        hosts: Mapping[str, ForgeHost],
        url: str,
        heads: Callable[[str, GitCredential], Mapping[str, str] | None] = lambda _url, _credential: None,
    ) -> None:
        self._storage = storage
        self._hosts = hosts
        self._url = url
        self._heads = heads

    def connect(
        self, organization_id: int, url: str, token: str, provider: str | None = None, *, anywhere: bool = False
    ) -> tuple[Repository, HostConnection]:
        """Connect a repository and make its webhook; again replaces token and webhook, and looks at once.

        Raises ConnectRefused, HostError, and HostConnectedElsewhere if it belongs to another organization.

        Args:
            organization_id: whose builds its pushes make.
            url: the address of the repository or its page.
            token: one that may read it, make its webhooks and set statuses.
            provider: the name of the forge; by default it is found out.
            anywhere: True if the owner of this service asks, who may name hosts that are not public.
        """
        origin, segments = _parsed(url)
        if not token.isascii() or not token.isprintable() or not token or " " in token:
            raise ConnectRefused("the token is empty, or has a character that no token has")
        deadline, given = Deadline(_TIMEOUT), ForgeToken(root=origin, token=token, anywhere=anywhere)
        host, sealed, path = self._found(segments, given, provider, deadline)
        api = host.api(sealed, deadline)
        remote = host.forge.describe(api, path)
        if not remote.may_administer:
            raise ConnectRefused(
                f"the token may not make webhooks in {remote.path}: give one of an administrator there"
            )
        account = host.forge.account(api)
        described = _described(sealed.root, remote)
        key = f"{sealed.root}#{remote.remote_id}"
        known = self._storage.host_connections.find(host.provider, key)
        url, former = self._webhook(host), self._former_webhook(host, known)
        credential = sealed.model_copy(update={"webhook": url}).model_dump_json().encode()
        heads = self._heads(described.url, sealed.git_credential)
        new = NewHostConnection(organization_id, host.provider, key, account, "token", remote.path, credential)
        with self._storage.transaction():
            connection = self._storage.host_connections.connect(new)
            repository = self._storage.repositories.put_remote(connection, described)
            if heads is not None:
                self._storage.repository_checks.record_heads(repository, heads)
            self._storage.repository_checks.hasten(repository.id)
        try:
            for each in dict.fromkeys((former, url)):
                host.forge.remove_webhook(api, remote, each)
            host.forge.add_webhook(api, remote, url, host.secrets.of(repository))
        except HostError:
            if known is None:
                self._storage.host_connections.remove(connection)
            raise
        return repository, connection

    def disconnect(self, repository: Repository) -> str | None:
        """Remove a repository with its webhook; return why the webhook may still be there.

        Raises ConnectRefused if it was not connected by a token.
        """
        host = self._hosts.get(repository.provider)
        connection = None
        if repository.connection_id is not None:
            connection = self._storage.host_connections.get(repository.connection_id)
        if host is None or connection is None:
            raise ConnectRefused(f"{repository.url} belongs to an account at {repository.provider}: disconnect that")
        left = self._remove_webhook(host, repository, self._former_webhook(host, connection))
        self._storage.host_connections.remove(connection)
        return left

    def _remove_webhook(self, host: ForgeHost, repository: Repository, url: str) -> str | None:
        try:
            api, remote = host.opened(repository)
            host.forge.remove_webhook(api, remote, url)
        except HostError as error:
            return str(error)
        return None

    def _found(
        self, segments: list[str], given: ForgeToken, provider: str | None, deadline: Deadline
    ) -> tuple[ForgeHost, ForgeToken, str]:
        """Return the forge that answers, the token for its root, and the repository's path below that."""
        if provider is not None and provider not in self._hosts:
            raise ConnectRefused(f'there is no forge "{provider}": expected one of {", ".join(self._hosts)}')
        for skipped in range(min(len(segments) - 1, _MOST_ROOTS)):
            root = "/".join((given.root, *segments[:skipped]))
            sealed = given.model_copy(update={"root": root})
            for name, host in self._hosts.items():
                if provider in {None, name} and host.forge.answers(host.api(sealed, deadline)):
                    return host, sealed, "/".join(segments[skipped:])
        looked = provider or " or ".join(self._hosts)
        raise ConnectRefused(f"{given.root} does not answer as {looked} does: correct the URL")

    def _webhook(self, host: ForgeHost) -> str:
        return f"{self._url}/webhooks/{host.provider}"

    def _former_webhook(self, host: ForgeHost, connection: HostConnection | None) -> str:
        """Return the address of a connection's webhook, which the service may have left since."""
        return (connection and host.webhook(connection)) or self._webhook(host)


def _parsed(url: str) -> tuple[str, list[str]]:
    """Return the origin of a URL and the segments of its path. Raises ConnectRefused."""
    found = _URL.fullmatch(url)
    if found is None or not 0 < int((found[2] or ":443")[1:]) < 65_536:  # noqa: PLR2004 - the ports of TCP
        raise ConnectRefused("expected the https URL of a repository, without user, password and query")
    host, port = found[1].lower(), found[2] or ""
    if host in _OTHERS:
        raise ConnectRefused(f"a repository at {host} is not connected by a token: {_OTHERS[host]}")
    segments = [each for each in found[3].removesuffix("/").removesuffix(".git").split("/") if each]
    if len(segments) < 2 or not all(_SEGMENT.fullmatch(each) for each in segments):  # noqa: PLR2004 - owner and name
        raise ConnectRefused(f"{url} names no owner and repository")
    return f"https://{host}{port}", segments


def _described(root: str, remote: RepositoryAtForge) -> RemoteRepository:
    """Return the repository for the storage.

    Its clone URL is made of what was asked, because a hostile answer might name another host, or a path of this one.
    Raises ConnectRefused.
    """
    segments = remote.path.split("/")
    url = f"{root}/{remote.path}.git"
    name = repo_name(url)
    if "/" not in remote.path or not all(_SEGMENT.fullmatch(each) for each in segments) or name is None:
        raise ConnectRefused(f"{root} answers with a repository of no usable name")
    return RemoteRepository(remote.remote_id, url, name, remote.default_branch, remote.private)
