"""Deliveries of the hosts of repositories (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import GET, POST, Call, Found, Span, operation
from api.operations.things import REPOSITORY, ThisRepository
from storage import Delivery, Page, Repository, Role, Storage, immutable, shown_as

__all__ = ["DeliveryWithBody", "connected_delivery", "get_repo_delivery", "list_repo_deliveries", "redeliver_to_repo"]

_DELIVERIES = f"{REPOSITORY}/deliveries"
_DELIVERY = f"{_DELIVERIES}/{{delivery_id}}"


@immutable
class DeliveryWithBody(Delivery):
    """A report with its body as it came; bytes that are not UTF-8 are replaced."""

    text: str = shown_as("body")

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        """Return a stored delivery with its body as text."""
        stored = {each.name: getattr(delivery, each.name) for each in fields(Delivery)}
        return cls(**stored, text=delivery.body.decode(errors="replace"))


def _delivery(call: Call, repository: ThisRepository, delivery_id: str) -> Delivery:
    return connected_delivery(call.storage, repository, delivery_id)


def connected_delivery(storage: Storage, repository: Repository, uuid: str) -> Delivery:
    """Return a delivery of a repository. Raises ApiError ``delivery_not_found``."""
    found = storage.deliveries.find(uuid)
    if found is None or found.repository_id != repository.id:
        raise ApiError.not_found("delivery", uuid)
    return found


ThisDelivery = Annotated[Delivery, Found(_delivery, ("delivery_not_found",))]


@operation("listRepoDeliveries", GET, _DELIVERIES, "A page of deliveries.")
def list_repo_deliveries(call: Call, repository: ThisRepository, span: Span) -> Page[Delivery]:
    """List what the host of a repository reported in the last seven days, newest first."""
    return call.storage.deliveries.page(repository.id, span.limit, span.after)


@operation("getRepoDelivery", GET, _DELIVERY, "The delivery.")
def get_repo_delivery(delivery: ThisDelivery) -> DeliveryWithBody:
    """Show a delivery with its body."""
    return DeliveryWithBody.of(delivery)


@operation(
    "redeliverToRepo",
    POST,
    f"{_DELIVERY}/redeliver",
    "The delivery, which is processed soon.",
    status=202,
    role=Role.ADMIN,
)
def redeliver_to_repo(call: Call, repository: ThisRepository, delivery: ThisDelivery) -> Delivery:
    """Process a delivery again; needs the role admin. What was built is not built again."""
    call.storage.deliveries.redeliver(delivery)
    call.engine.deliveries_added()
    return _delivery(call, repository, delivery.uuid)
