"""The source hosts of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.source_hosts import ForgeHost, Forgejo, GitLab, HostNetwork, PlainGit, RepositoryConnector, WebhookSecrets
from actors.source_hosts.github import Github, GithubApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts import SourceHost
    from ci_daemon.config import Config
    from storage import Clock, Storage

__all__ = ["open_connector", "open_source_hosts"]


def open_source_hosts(storage: Storage, config: Config, clock: Clock) -> Mapping[str, SourceHost]:
    """Return the source hosts by name; those that are not configured refuse deliveries."""
    hosts: tuple[SourceHost, ...] = (
        PlainGit(storage),
        Github(storage, config.github, GithubApi(config.github, clock)),
        *_forges(storage, config, clock).values(),
    )
    return {each.provider: each for each in hosts}


def open_connector(storage: Storage, config: Config, clock: Clock, url: str) -> RepositoryConnector:
    """Return what connects repositories by token; ``url`` is the address of this service."""
    return RepositoryConnector(storage, _forges(storage, config, clock), url)


def _forges(storage: Storage, config: Config, clock: Clock) -> dict[str, ForgeHost]:
    """Return the forges; Forgejo comes before Gitea, because it answers as that, too."""
    secrets, network = WebhookSecrets(storage), HostNetwork(config.repositories, clock)
    forges = (Forgejo("forgejo"), Forgejo("gitea"), GitLab())
    return {each.provider: ForgeHost(storage, secrets, network, each) for each in forges}
