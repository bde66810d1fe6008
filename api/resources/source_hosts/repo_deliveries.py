"""Deliveries of the hosts of repositories (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from api.bodies import answer
from api.errors.responses import ApiError
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import Role

if TYPE_CHECKING:
    import falcon

    import storage
    from api.engine import EngineInterface
    from api.middleware.authentication import Access, Membership
    from api.paging import Pager
    from storage import Delivery, Repository, Storage

__all__ = [
    "DeliveryRecord",
    "DeliveryWithBodyRecord",
    "RepoDeliveriesResource",
    "connected_delivery",
    "connected_repository",
]

_ERRORS = ("organization_not_found", "repo_not_found")


class DeliveryRecord(StoredRecord):
    """A report of a source host; it waits while ``processed_at`` is null.

    ``delivery_id`` is the host's own name for it. ``outcome`` says what came of it: the builds, or why there are none.
    ``last_error`` is why the last attempt to process it failed.
    """

    id: Uuid
    event: Annotated[str, Field(examples=["push"])]
    delivery_id: str
    received_at: Timestamp
    attempts: int
    processed_at: Timestamp | None
    outcome: Annotated[str | None, Field(examples=["refs/heads/main: 1 build: acme-web-ci #3"])]
    last_error: str | None

    @classmethod
    def of(cls, delivery: storage.Delivery) -> DeliveryRecord:
        """Return the record of a delivery."""
        return cls.showing(delivery, id=delivery.uuid)


class DeliveryWithBodyRecord(DeliveryRecord):
    """A report with its body as it came; bytes that are not UTF-8 are replaced."""

    body: str

    @classmethod
    def of(cls, delivery: storage.Delivery) -> DeliveryWithBodyRecord:
        """Return the record of a delivery."""
        return cls.showing(delivery, id=delivery.uuid, body=delivery.body.decode(errors="replace"))


class RepoDeliveriesResource:
    """``/api/v0/organizations/{org}/repos/{id}/deliveries`` and the paths below it."""

    def __init__(self, storage: Storage, engine: EngineInterface, access: Access, pager: Pager) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._pager = pager

    @operation(
        "listRepoDeliveries",
        Answer(200, "A page of deliveries.", PageRecord[DeliveryRecord]),
        errors=(*_ERRORS, *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str, id: str) -> None:
        """List what the host of a repository reported in the last seven days, newest first."""
        repository = connected_repository(self._storage, self._access.member(req, org), id)
        page = partial(self._storage.deliveries.page, repository.id)
        self._pager.answer(req, resp, f"deliveries/{repository.id}", page, DeliveryRecord.of)

    @operation(
        "getRepoDelivery",
        Answer(200, "The delivery.", DeliveryWithBodyRecord),
        errors=(*_ERRORS, "delivery_not_found"),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, id: str, delivery_id: str) -> None:
        """Show a delivery with its body."""
        repository = connected_repository(self._storage, self._access.member(req, org), id)
        answer(resp, DeliveryWithBodyRecord.of(connected_delivery(self._storage, repository, delivery_id)))

    @operation(
        "redeliverToRepo",
        Answer(202, "The delivery, which is processed soon.", DeliveryRecord),
        errors=(*_ERRORS, "insufficient_org_role", "delivery_not_found"),
    )
    def on_post_redeliver(
        self, req: falcon.Request, resp: falcon.Response, org: str, id: str, delivery_id: str
    ) -> None:
        """Process a delivery again; needs the role admin. What was built is not built again."""
        member = self._access.member(req, org)
        repository = connected_repository(self._storage, member, id)
        delivery = connected_delivery(self._storage, repository, delivery_id)
        member.require(Role.ADMIN)
        self._storage.deliveries.redeliver(delivery)
        self._engine.deliveries_added()
        answer(resp, DeliveryRecord.of(connected_delivery(self._storage, repository, delivery_id)), status=202)


def connected_repository(storage: Storage, member: Membership, uuid: str) -> Repository:
    """Return a repository of the member's organization. Raises ApiError ``repo_not_found``."""
    found = next(
        (each for each in storage.repositories.of_organization(member.organization.id) if each.uuid == uuid), None
    )
    if found is None:
        raise ApiError.not_found("repo", uuid)
    return found


def connected_delivery(storage: Storage, repository: Repository, uuid: str) -> Delivery:
    """Return a delivery of a repository. Raises ApiError ``delivery_not_found``."""
    found = storage.deliveries.find(uuid)
    if found is None or found.repository_id != repository.id:
        raise ApiError.not_found("delivery", uuid)
    return found
