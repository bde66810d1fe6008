"""The repositories of an organization, and its accounts at source hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.source_hosts.github import GITHUB
from api.console.pages import Page
from storage import Role, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import falcon

    from api.console.site import Site
    from storage import HostConnection, Repository


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
        organization, storage, serving = member.organization, self._site.storage, self._site.serving
        repositories = storage.repositories.of_organization(organization.id)
        installations = storage.host_connections.of_organization(organization.id, GITHUB)
        self._site.pages.show(
            req,
            resp,
            "source_hosts/list",
            organization=organization,
            admin=member.role.covers(Role.ADMIN),
            repositories=repositories,
            has_github=serving.github.configured,
            installations=_accounts(installations, repositories),
            has_bitbucket=serving.workspaces.configured,
            workspaces=_accounts(serving.workspaces.of_organization(organization.id), repositories),
            form_token=self._site.form_token(req),
        )


def installation_of(fields: Mapping[str, str]) -> dict[str, object]:
    """Return the body of ``connectGithubInstallation``; the form takes the address of a page too."""
    given = fields.get("installation_id", "").strip().rstrip("/").rpartition("/")[2]
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else 0  # noqa: PLR2004 - 64 bits
    return {"installation_id": number}


def _accounts(connections: Sequence[HostConnection], repositories: Sequence[Repository]) -> list[ConnectedAccount]:
    return [
        ConnectedAccount(each, sum(repository.connection_id == each.id for repository in repositories))
        for each in connections
    ]
