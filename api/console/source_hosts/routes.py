"""The paths of the pages of repositories and source hosts, and of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.operation_form import OperationForm, given, leads_to, shows
from api.console.source_hosts.bitbucket import BitbucketPage
from api.console.source_hosts.list import RepositoriesPage, installation_of
from api.console.source_hosts.repository import RepositoryPage
from api.operations import repo_deliveries, repositories
from api.resources.source_hosts.bitbucket import BitbucketResource
from api.resources.source_hosts.github_installations import GithubInstallationsResource

if TYPE_CHECKING:
    from actors.source_hosts import Workspaces
    from actors.source_hosts.github import Installations
    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.signing import Signer

_LIST = "/{org}/repositories"


def add_source_host_pages(
    routes: Routes,
    site: Site,
    *,
    workspaces: Workspaces,
    signer: Signer,
    installations: Installations | None,
) -> None:
    """Route the pages of repositories and source hosts, and the way to Bitbucket and back."""
    storage, engine, access = site.storage, site.engine, site.access
    back = leads_to(lambda params, _: f"{params['org']}/repositories")
    routes.add_page(_LIST, RepositoriesPage(site, workspaces, has_github=installations is not None))

    document = given("url", "token", "provider")
    routes.add_page(f"{_LIST}/connect", OperationForm(site, repositories.connect_repo, back, document))

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
    routes.add_page(f"{one}/disconnect", OperationForm(site, repositories.disconnect_repo, back))
    routes.add_page(f"{one}/check", OperationForm(site, repositories.check_repo, again))
    shown = shows(site, "source_hosts/hook")
    routes.add_page(f"{one}/hook", OperationForm(site, repositories.make_repo_hook, shown))
    routes.add_page(f"{one}/deliveries/{{delivery_id}}", page_of_one, "delivery")
    form = OperationForm(site, repo_deliveries.redeliver_to_repo, again)
    routes.add_page(f"{one}/deliveries/{{delivery_id}}/redeliver", form)
