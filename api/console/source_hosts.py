"""The pages of repositories and of accounts at source hosts, and their forms."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from actors.repositories import fingerprint
from actors.source_hosts import GITHUB, HostPages
from api.console.errors import Page
from api.console.home import pipelines_of, rows_of
from api.console.operation_form import OperationForm, given, leads_to, shows
from api.console.pages import redirect, whole_number
from api.doors.http import call_of
from api.errors.catalog import ApiError
from api.openapi.operations import performs
from api.operations import bitbucket, github_installations, merge_queue, repo_deliveries, repositories
from api.operations.repo_deliveries import connected_delivery
from api.operations.repositories import deploy_key_of
from api.operations.things import connected_repository
from storage import GIT, Role, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import falcon

    from api.console.site import Site
    from api.openapi.operations import Routes
    from api.operations.operation import Call
    from storage import HostConnection, PushOutcome, Repository

_DELIVERIES = 30
_OUTCOMES = 20
_BUILD = pattern(r"((?<![\w-])[\w-]+ #\d+)")
_MOST_SHOWN = 256 * 1024
_OF_ACCOUNTS = ("github", "bitbucket")
"""The hosts whose repositories come and go with an account."""

_LIST = "/{org}/repositories"


@immutable
class ConnectedAccount:
    """An account at a host, and how many repositories it brings."""

    connection: HostConnection
    repositories: int


class RepositoriesPage(Page):
    """``/{org}/repositories``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show what is connected to a member; only admins connect and disconnect."""
        member = self._site.access.member(req, org)
        organization, storage, later = member.organization, self._site.storage, self._site.later
        repositories = storage.repositories.of_organization(organization.id)
        installations = storage.host_connections.of_organization(organization.id, GITHUB)
        self._site.pages.show(
            req,
            resp,
            "source_hosts/list",
            organization=organization,
            admin=member.role.covers(Role.ADMIN),
            repositories=repositories,
            has_github=later.github.configured,
            installations=_accounts(installations, repositories),
            has_bitbucket=later.workspaces.configured,
            workspaces=_accounts(later.workspaces.of_organization(organization.id), repositories),
            form_token=self._site.form_token(req),
        )


def installation_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``connectGithubInstallation``; the form takes the address of a page too."""
    given = fields.get("installation_id", "").strip().rstrip("/").rpartition("/")[2]
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else 0  # noqa: PLR2004 - 64 bits
    return {"installation_id": number}


def queued_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``addToMergeQueue``: a number is a pull request, any other name a branch."""
    name = fields.get("name", "").strip()
    number = name.removeprefix("#")
    if number.isascii() and number.isdecimal() and len(number) < 10:  # noqa: PLR2004 - far below 2**31
        return {"pull_request": int(number)}
    return {"branch": name}


def _accounts(connections: Sequence[HostConnection], repositories: Sequence[Repository]) -> list[ConnectedAccount]:
    return [
        ConnectedAccount(each, sum(repository.connection_id == each.id for repository in repositories))
        for each in connections
    ]


class RepositoryPage(Page):
    """``/{org}/repositories/{id}``, and ``…/deliveries/{delivery_id}`` below it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """Show a repository and its deliveries before the one with the key ``before``, to a member."""
        member = self._site.access.member(req, org)
        storage = self._site.storage
        repository = connected_repository(storage, member.organization.id, id)
        key = deploy_key_of(storage, repository)
        deliveries = storage.deliveries.page(repository.id, _DELIVERIES, whole_number(req.get_param("before")))
        self._site.pages.show(
            req,
            resp,
            "source_hosts/repository",
            organization=member.organization,
            repository=repository,
            pages=HostPages.of(repository),
            plain=repository.provider == GIT,
            of_account=repository.provider in _OF_ACCOUNTS,
            deploy_key=key,
            host_key=None if key is None else fingerprint(key.host_key),
            groups=pipelines_of(self._site, member.organization, self._site.access.caller(req).user.id, repository),
            queue=merge_queue.listed(storage, repository),
            outcomes=[(each, _linked(each)) for each in storage.push_outcomes.latest(repository.id, _OUTCOMES)],
            deliveries=deliveries.rows,
            more=deliveries.next_key,
            admin=member.role.covers(Role.ADMIN),
            **rows_of(self._site, req),
        )

    def on_get_delivery(self, req: falcon.Request, resp: falcon.Response, org: str, id: str, delivery_id: str) -> None:
        """Show a delivery as it came, to a member."""
        member = self._site.access.member(req, org)
        repository = connected_repository(self._site.storage, member.organization.id, id)
        delivery = connected_delivery(self._site.storage, repository, delivery_id)
        self._site.pages.show(
            req,
            resp,
            "source_hosts/delivery",
            organization=member.organization,
            repository=repository,
            delivery=delivery,
            body=delivery.body[:_MOST_SHOWN].decode(errors="replace"),
            cut=len(delivery.body) > _MOST_SHOWN,
        )


class BitbucketPage(Page):
    """``/integrations/bitbucket`` and the callback below it; the state is signed for the browser's user."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send an admin of the organization ``?org=`` to Bitbucket."""
        names = {"org": req.get_param("org") or ""}
        resp.location = bitbucket.get_oauth_url.perform(self._call(req, resp), names, dict).url
        resp.status = 303
        resp.cache_control = ["no-store"]

    @performs("connectBitbucket")
    def on_get_callback(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Connect the workspaces of the person whom Bitbucket sends back."""
        call, code = self._call(req, resp), req.get_param("code")
        if not code:
            raise ApiError("bitbucket_connect_failed", "Bitbucket sent no code: you declined, or something is amiss")
        body = bitbucket.ConnectBitbucketRequest(code, req.get_param("state") or "")
        resp.context.record = record = bitbucket.connect_bitbucket.perform(call, {}, lambda: body)
        redirect(req, resp, f"{quote(record.org)}/repositories")

    def _call(self, req: falcon.Request, resp: falcon.Response) -> Call:
        return call_of(req, resp, self._site.service, self._site.rates, self._site.access.caller(req))


def add_source_host_pages(routes: Routes, site: Site) -> None:
    """Route the pages of repositories and source hosts, and the way to Bitbucket and back."""
    back = leads_to(lambda params, _: f"{params['org']}/repositories")
    routes.add_page(_LIST, RepositoriesPage(site))

    document = given(repositories.ConnectRepoRequest)
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
    routes.add_page(f"{one}/merge-queue/add", OperationForm(site, merge_queue.add_to_merge_queue, again, queued_of))
    routes.add_page(
        f"{one}/merge-queue/{{entry}}/remove", OperationForm(site, merge_queue.remove_from_merge_queue, again)
    )
    shown = shows(site, "source_hosts/hook")
    routes.add_page(f"{one}/hook", OperationForm(site, repositories.make_repo_hook, shown))
    routes.add_page(f"{one}/deliveries/{{delivery_id}}", page_of_one, "delivery")
    form = OperationForm(site, repo_deliveries.redeliver_to_repo, again)
    routes.add_page(f"{one}/deliveries/{{delivery_id}}/redeliver", form)


def _linked(found: PushOutcome) -> list[tuple[str, str]]:
    """Return the outcome of a push in pieces, each with the page that it leads to, or none."""
    pages = {f"{page.split('/')[2]} #{page.rpartition('/')[2]}": page for page in found.pages.splitlines()}
    return [(piece, pages.get(piece, "")) for piece in _BUILD.split(found.outcome)]
