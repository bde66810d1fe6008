"""One repository: how it is fetched, and what its host reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.repositories import fingerprint
from api.console.pages import Page, whole_number
from api.operations.repo_deliveries import connected_delivery
from api.operations.repositories import deploy_key_of
from api.operations.things import connected_repository
from storage import GIT, Role

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site

_DELIVERIES = 30
_OUTCOMES = 20
_MOST_SHOWN = 256 * 1024


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
            plain=repository.provider == GIT,
            of_account=repository.provider in _OF_ACCOUNTS,
            deploy_key=key,
            host_key=None if key is None else fingerprint(key.host_key),
            outcomes=storage.push_outcomes.latest(repository.id, _OUTCOMES),
            deliveries=deliveries.rows,
            more=deliveries.next_key,
            admin=member.role.covers(Role.ADMIN),
            form_token=self._site.form_token(req),
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


_OF_ACCOUNTS = ("github", "bitbucket")
"""The hosts whose repositories come and go with an account."""
