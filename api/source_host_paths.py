"""The paths of accounts and repositories at source hosts, for programs and for browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.source_hosts.routes import add_source_host_pages
from api.operations import repo_deliveries, repositories
from api.resources.source_hosts.bitbucket import BitbucketResource
from api.resources.source_hosts.github_installations import GithubInstallationsResource

if TYPE_CHECKING:
    from actors.source_hosts import Workspaces
    from actors.source_hosts.github import Installations
    from api.console.site import Site
    from api.doors.http import HttpDoor
    from api.middleware.authentication import Access
    from api.openapi.operations import Routes
    from api.signing import Signer

_V0 = "/api/v0"
_ORGANIZATION = f"{_V0}/organizations/{{org}}"


def add_source_hosts(
    routes: Routes,
    door: HttpDoor,
    access: Access,
    site: Site,
    *,
    workspaces: Workspaces,
    signer: Signer,
    installations: Installations | None,
) -> None:
    """Route what is connected at source hosts; ``access`` is that of programs."""
    door.add(
        routes,
        repositories.list_org_repos,
        repositories.connect_repo,
        repositories.get_repo,
        repositories.update_repo,
        repositories.disconnect_repo,
        repositories.check_repo,
        repositories.make_repo_hook,
        repo_deliveries.list_repo_deliveries,
        repo_deliveries.get_repo_delivery,
        repo_deliveries.redeliver_to_repo,
    )

    github, path = (
        GithubInstallationsResource(site.storage, access, installations),
        f"{_ORGANIZATION}/github/installations",
    )
    routes.add(path, github, "list")
    routes.add(f"{path}/{{id}}", github)
    routes.add(f"{path}/{{id}}/repos", github, "repos")
    routes.add(f"{path}/{{id}}/sync", github, "sync")

    bitbucket = BitbucketResource(access, site.engine, workspaces, signer, site.clock)
    routes.add(f"{_V0}/integrations/bitbucket/connect", bitbucket, "connect")
    routes.add(f"{_ORGANIZATION}/bitbucket/oauth-url", bitbucket, "oauth_url")
    routes.add(f"{_ORGANIZATION}/bitbucket/workspaces", bitbucket, "workspaces")
    routes.add(f"{_ORGANIZATION}/bitbucket/workspaces/{{id}}", bitbucket, "workspace")
    routes.add(f"{_ORGANIZATION}/bitbucket/workspaces/{{id}}/repos", bitbucket, "repos")

    add_source_host_pages(
        routes,
        site,
        workspaces=workspaces,
        signer=signer,
        installations=installations,
    )
