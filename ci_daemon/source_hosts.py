"""The source hosts of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.repositories import GitError, heads_at
from actors.source_hosts import (
    Bitbucket,
    BitbucketApi,
    ForgeHost,
    Forgejo,
    GitLab,
    HostNetwork,
    PlainGit,
    RepositoryConnector,
    WebhookSecrets,
    Workspaces,
)
from actors.source_hosts.github import Github, GithubApi
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts import SourceHost
    from actors.source_hosts.github import Installations
    from ci_daemon.config import Config
    from storage import Clock, GitCredential, Storage


@immutable
class SourceHosts:
    """The source hosts by name, and what connects repositories and accounts at them."""

    by_name: Mapping[str, SourceHost]
    connector: RepositoryConnector
    workspaces: Workspaces
    installations: Installations | None


def open_github(storage: Storage, config: Config, clock: Clock) -> Github:
    """Return the GitHub app, configured or not.

    People may bind installations if signing in with GitHub proves their identity at the very host of the app.
    """
    proves = config.identity.github.userinfo_url == f"{config.github.api_url}/user"
    return Github(storage, config.github, GithubApi(config.github, clock), sign_in_proves=proves)


def open_source_hosts(storage: Storage, config: Config, clock: Clock, url: str) -> SourceHosts:
    """Return the source hosts of a service at a URL; those that are not configured refuse deliveries.

    Forgejo comes before Gitea, because it answers as that, too.
    """
    github = open_github(storage, config, clock)
    secrets, network = WebhookSecrets(storage), HostNetwork(config.repositories, clock)
    kinds = (Forgejo("forgejo"), Forgejo("gitea"), GitLab())
    forges = {each.provider: ForgeHost(storage, secrets, network, each) for each in kinds}
    api = BitbucketApi(config.bitbucket, network)
    workspaces = Workspaces(storage, api, secrets, clock, f"{url}/webhooks/bitbucket")
    hosts: tuple[SourceHost, ...] = (
        PlainGit(storage),
        github,
        *forges.values(),
        Bitbucket(storage, api, secrets, workspaces),
    )
    by_name = {each.provider: each for each in hosts}
    installations = github.installations if config.github.configured else None

    def heads(clone_url: str, credential: GitCredential) -> Mapping[str, str] | None:
        try:
            return heads_at(clone_url, config.repositories, credential)
        except GitError:
            return None

    return SourceHosts(by_name, RepositoryConnector(storage, forges, url, heads), workspaces, installations)
