"""The source hosts of a configuration."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from actors import repositories, source_hosts
from actors.source_hosts import GITHUB
from storage import GIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.source_hosts import ForgeHost, Github, Installations, RepositoryConnector, SourceHost, Workspaces
    from ci_daemon.config import Config
    from storage import Clock, GitCredential, Storage


def open_github(storage: Storage, config: Config, clock: Clock) -> Github:
    """Return the GitHub app, configured or not.

    People may bind installations if signing in with GitHub proves their identity at the very host of the app.
    """
    proves = config.identity.github.userinfo_url == f"{config.github.api_url}/user"
    return source_hosts.Github(
        storage, config.github, source_hosts.GithubApi(config.github, clock), sign_in_proves=proves
    )


class SourceHosts(Mapping[str, "SourceHost"]):
    """The source hosts of a service at a URL by name, and what connects repositories and accounts at them.

    Each is imported and opened when it is first needed, for most services have one or two. Those that are not
    configured refuse deliveries. Safe in any thread.
    """

    def __init__(self, storage: Storage, config: Config, clock: Clock, url: str) -> None:
        self._storage = storage
        self._config = config
        self._clock = clock
        self._url = url
        self._opening = threading.RLock()
        self._opened: dict[str, SourceHost] = {}
        self._makers: Mapping[str, Callable[[], SourceHost]] = {
            GIT: lambda: source_hosts.PlainGit(storage),
            GITHUB: lambda: self._github,
            **{name: partial(self._forge, name) for name in ("forgejo", "gitea", "gitlab")},
            "bitbucket": self._bitbucket,
        }

    def __getitem__(self, name: str) -> SourceHost:
        """Return a host."""
        with self._opening:
            if name not in self._opened:
                self._opened[name] = self._makers[name]()
            return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all."""
        return iter(self._makers)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._makers)

    def connector(self) -> RepositoryConnector:
        """Return what connects repositories by token."""
        with self._opening:
            return self._connector

    def workspaces(self) -> Workspaces:
        """Return what connects workspaces of Bitbucket."""
        with self._opening:
            return self._workspaces

    def installations(self) -> Installations:
        """Return the installations of the GitHub app."""
        with self._opening:
            return self._github.installations

    @cached_property
    def _github(self) -> Github:
        return open_github(self._storage, self._config, self._clock)

    @cached_property
    def _secrets(self) -> source_hosts.WebhookSecrets:
        return source_hosts.WebhookSecrets(self._storage)

    @cached_property
    def _network(self) -> source_hosts.HostNetwork:
        settings = self._config.repositories
        return source_hosts.HostNetwork(settings.allowed_networks, settings.ca_file, self._clock)

    @cached_property
    def _forges(self) -> Mapping[str, ForgeHost]:
        """The forges in the order in which they are tried: Forgejo answers as Gitea, too."""
        kinds = (source_hosts.Forgejo("forgejo"), source_hosts.Forgejo("gitea"), source_hosts.GitLab())
        hosts = (source_hosts.ForgeHost(self._storage, self._secrets, self._network, each) for each in kinds)
        return {each.provider: each for each in hosts}

    def _forge(self, name: str) -> SourceHost:
        return self._forges[name]

    @cached_property
    def _connector(self) -> RepositoryConnector:
        def heads(clone_url: str, credential: GitCredential) -> Mapping[str, str] | None:
            try:
                return repositories.heads_at(clone_url, self._config.repositories, credential)
            except repositories.GitError:
                return None

        return source_hosts.RepositoryConnector(self._storage, self._forges, self._url, heads)

    @cached_property
    def _bitbucket_api(self) -> source_hosts.BitbucketApi:
        return source_hosts.BitbucketApi(self._config.bitbucket, self._network)

    @cached_property
    def _workspaces(self) -> Workspaces:
        webhook = f"{self._url}/webhooks/bitbucket"
        return source_hosts.Workspaces(self._storage, self._bitbucket_api, self._secrets, self._clock, webhook)

    def _bitbucket(self) -> SourceHost:
        return source_hosts.Bitbucket(self._storage, self._bitbucket_api, self._secrets, self._workspaces)
