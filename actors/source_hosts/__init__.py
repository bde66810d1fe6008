"""Source hosts: what they report, and what they are told (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.source_hosts.api_client import HostNetwork
    from actors.source_hosts.bitbucket.api import BitbucketApi
    from actors.source_hosts.bitbucket.workspaces import Bitbucket, Workspaces
    from actors.source_hosts.connecting import RepositoryConnector
    from actors.source_hosts.forge_host import ForgeHost
    from actors.source_hosts.forgejo import Forgejo
    from actors.source_hosts.github.api import GithubApi, GithubNotFound
    from actors.source_hosts.github.host import Github
    from actors.source_hosts.github.installations import Installations
    from actors.source_hosts.gitlab import GitLab
    from actors.source_hosts.host import (
        ConnectRefused,
        DeliveryInvalid,
        DeliveryUnsigned,
        HostError,
        HostEvent,
        HostNotConfigured,
        PushedRef,
        Received,
        SourceHost,
    )
    from actors.source_hosts.links import BuildPages, HostPages
    from actors.source_hosts.payloads import WebhookSecrets
    from actors.source_hosts.plain_git import PlainGit
    from actors.source_hosts.settings import GITHUB, BitbucketSettings, GithubAppSettings
else:
    __getattr__ = on_first_use(__name__)
