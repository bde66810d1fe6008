"""The paths of the pages of repositories and source hosts, and of their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.operation_form import OperationForm, given, leads_to, shows
from api.console.source_hosts.bitbucket import BitbucketPage
from api.console.source_hosts.list import RepositoriesPage, installation_of
from api.console.source_hosts.repository import RepositoryPage
from api.operations import bitbucket, github_installations, repo_deliveries, repositories

if TYPE_CHECKING:
    from api.console.site import Site
    from api.openapi.operations import Routes

_LIST = "/{org}/repositories"


def add_source_host_pages(routes: Routes, site: Site) -> None:
    """Route the pages of repositories and source hosts, and the way to Bitbucket and back."""
    back = leads_to(lambda params, _: f"{params['org']}/repositories")
    routes.add_page(_LIST, RepositoriesPage(site))

    document = given("url", "token", "provider")
    routes.add_page(f"{_LIST}/connect", OperationForm(site, repositories.connect_repo, back, document))

    form = OperationForm(site, github_installations.connect_installation, back, installation_of)
    routes.add_page("/{org}/github/connect", form)
    form = OperationForm(site, github_installations.sync_installation, back)
    routes.add_page("/{org}/github/{id}/sync", form)
    form = OperationForm(site, github_installations.disconnect_installation, back)
    routes.add_page("/{org}/github/{id}/disconnect", form)

    page = BitbucketPage(site)
    routes.add_page("/integrations/bitbucket", page)
    routes.add_page("/integrations/bitbucket/callback", page, "callback")
    form = OperationForm(site, bitbucket.disconnect_workspace, back)
    routes.add_page("/{org}/bitbucket/{id}/disconnect", form)

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
