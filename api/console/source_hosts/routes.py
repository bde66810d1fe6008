"""The paths of the pages of repositories and source hosts, and of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.operation_form import OperationForm, given, leads_to, shows
from api.console.source_hosts.bitbucket import BitbucketPage
from api.console.source_hosts.list import RepositoriesPage, installation_of
from api.console.source_hosts.repository import RepositoryPage
from api.resources.source_hosts.bitbucket import BitbucketResource
from api.resources.source_hosts.connected_repo import ConnectedRepoResource
from api.resources.source_hosts.github_installations import GithubInstallationsResource
from api.resources.source_hosts.repo_deliveries import RepoDeliveriesResource
from api.resources.source_hosts.repositories import RepositoriesResource

if TYPE_CHECKING:
    from actors.source_hosts import RepositoryConnector, Workspaces
    from actors.source_hosts.github import Installations
    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.paging import Pager
    from api.signing import Signer

__all__ = ["add_source_host_pages"]

_LIST = "/{org}/repositories"


def add_source_host_pages(
    routes: Routes,
    site: Site,
    *,
    connector: RepositoryConnector,
    workspaces: Workspaces,
    signer: Signer,
    pager: Pager,
    url: str,
    installations: Installations | None,
) -> None:
    """Route the pages of repositories and source hosts, and the way to Bitbucket and back."""
    storage, engine, access = site.storage, site.engine, site.access
    back = leads_to(lambda params, _: f"{params['org']}/repositories")
    routes.add_page(_LIST, RepositoriesPage(site, workspaces, has_github=installations is not None))

    repositories = RepositoriesResource(storage, access, connector)
    document = given("url", "token", "provider")
    routes.add_page(f"{_LIST}/connect", OperationForm(site, repositories.on_post_connect, back, document))

    github = GithubInstallationsResource(storage, access, installations)
    form = OperationForm(site, github.on_post_list, back, installation_of)
    routes.add_page("/{org}/github/connect", form)
    routes.add_page("/{org}/github/{id}/sync", OperationForm(site, github.on_post_sync, back))
    routes.add_page("/{org}/github/{id}/disconnect", OperationForm(site, github.on_delete, back))

    bitbucket = BitbucketResource(access, engine, workspaces, signer, site.clock)
    page = BitbucketPage(bitbucket)
    routes.add_page("/integrations/bitbucket", page)
    routes.add_page("/integrations/bitbucket/callback", page, "callback")
    routes.add_page("/{org}/bitbucket/{id}/disconnect", OperationForm(site, bitbucket.on_delete_workspace, back))

    one, page_of_one = f"{_LIST}/{{id}}", RepositoryPage(site)
    again = leads_to(lambda params, _: f"{params['org']}/repositories/{params['id']}")
    routes.add_page(one, page_of_one)
    routes.add_page(f"{one}/disconnect", OperationForm(site, repositories.on_delete, back))
    connected = ConnectedRepoResource(storage, engine, access, url)
    routes.add_page(f"{one}/check", OperationForm(site, connected.on_post_check, again))
    shown = shows(site, "source_hosts/hook")
    routes.add_page(f"{one}/hook", OperationForm(site, connected.on_post_hook, shown))
    routes.add_page(f"{one}/deliveries/{{delivery_id}}", page_of_one, "delivery")
    deliveries = RepoDeliveriesResource(storage, engine, access, pager)
    form = OperationForm(site, deliveries.on_post_redeliver, again)
    routes.add_page(f"{one}/deliveries/{{delivery_id}}/redeliver", form)
