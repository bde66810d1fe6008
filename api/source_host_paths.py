"""The paths of accounts and repositories at source hosts, for programs and for browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.source_hosts.routes import add_source_host_pages
from api.resources.source_hosts.bitbucket import BitbucketResource
from api.resources.source_hosts.connected_repo import ConnectedRepoResource
from api.resources.source_hosts.github_installations import GithubInstallationsResource
from api.resources.source_hosts.repo_deliveries import RepoDeliveriesResource
from api.resources.source_hosts.repo_summaries import RepoSummariesResource
from api.resources.source_hosts.repositories import RepositoriesResource

if TYPE_CHECKING:
    from actors.source_hosts import RepositoryConnector, Workspaces
    from actors.source_hosts.github import Installations
    from api.console.site import Site
    from api.middleware.authentication import Access
    from api.openapi.operations import Routes
    from api.paging import Pager
    from api.signing import Signer

__all__ = ["add_source_hosts"]

_V0 = "/api/v0"
_ORGANIZATION = f"{_V0}/organizations/{{org}}"


def add_source_hosts(
    routes: Routes,
    access: Access,
    site: Site,
    *,
    connector: RepositoryConnector,
    workspaces: Workspaces,
    signer: Signer,
    pager: Pager,
    url: str,
    installations: Installations | None,
) -> None:
    """Route what is connected at source hosts; ``access`` is that of programs."""
    routes.add(f"{_ORGANIZATION}/repos", RepoSummariesResource(site.storage, access), "list")
    repositories = RepositoriesResource(site.storage, access, connector)
    routes.add(f"{_ORGANIZATION}/repos/connect", repositories, "connect")
    routes.add(f"{_ORGANIZATION}/repos/{{id}}", repositories)
    one = ConnectedRepoResource(site.storage, site.engine, access, url)
    routes.add(f"{_ORGANIZATION}/repos/{{id}}/check", one, "check")
    routes.add(f"{_ORGANIZATION}/repos/{{id}}/hook", one, "hook")
    deliveries = RepoDeliveriesResource(site.storage, site.engine, access, pager)
    routes.add(f"{_ORGANIZATION}/repos/{{id}}/deliveries", deliveries, "list")
    routes.add(f"{_ORGANIZATION}/repos/{{id}}/deliveries/{{delivery_id}}", deliveries)
    routes.add(f"{_ORGANIZATION}/repos/{{id}}/deliveries/{{delivery_id}}/redeliver", deliveries, "redeliver")

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
        connector=connector,
        workspaces=workspaces,
        signer=signer,
        pager=pager,
        url=url,
        installations=installations,
    )
