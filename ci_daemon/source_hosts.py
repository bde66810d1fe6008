"""The source hosts of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.source_hosts import PlainGit
from actors.source_hosts.github import Github, GithubApi

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts import SourceHost
    from ci_daemon.config import Config
    from storage import Clock, Storage

__all__ = ["open_source_hosts"]


def open_source_hosts(storage: Storage, config: Config, clock: Clock) -> Mapping[str, SourceHost]:
    """Return the source hosts by name; those that are not configured refuse deliveries."""
    hosts: tuple[SourceHost, ...] = (PlainGit(storage), Github(storage, config.github, GithubApi(config.github, clock)))
    return {each.provider: each for each in hosts}
