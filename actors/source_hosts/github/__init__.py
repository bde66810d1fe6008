"""GitHub: an app whose installations bring repositories and pushes, and whose check runs show builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.source_hosts.github.api import GithubApi, GithubNotFound
    from actors.source_hosts.github.host import Github
    from actors.source_hosts.github.installations import GITHUB, Installations
    from actors.source_hosts.github.settings import GithubAppSettings
else:
    __getattr__ = on_first_use(__name__)
