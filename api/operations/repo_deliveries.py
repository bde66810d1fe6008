"""Deliveries of the hosts of repositories (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - a command reads the annotations
from typing import Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import GET, POST, Call, Found, Span, Success, operation, owners_operation
from api.operations.things import REPOSITORY, ThisRepository
from storage import Delivery, Page, Repository, Role, Storage, immutable, showing, shown_as

_DELIVERIES = f"{REPOSITORY}/deliveries"
_DELIVERY = f"{_DELIVERIES}/{{delivery_id}}"
_REPORTS = "/deliveries"


@immutable
class DeliveryWithBody(Delivery):
    """A report with its body as it came; bytes that are not UTF-8 are replaced."""

    text: str = shown_as("body")

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        """Return a stored delivery with its body as text."""
        return showing(cls, delivery, text=delivery.body.decode(errors="replace"))


@immutable
class Report:
    """A report of a source host with the repository that it is about; None if it is about an account."""

    uuid: str
    provider: str
    event: str
    delivery_id: str
    url: str | None
    received_at: datetime
    state: str
    """``waiting`` or ``processed``."""

    attempts: int
    outcome: str | None
    last_error: str | None

    @classmethod
    def of(cls, delivery: Delivery, provider: str, url: str | None) -> Report:
        """Return the report of a delivery, whose host and repository its own record does not show."""
        state = "waiting" if delivery.processed_at is None else "processed"
        return showing(Report, delivery, provider=provider, url=url, state=state)


@immutable
class ReportWithBody(Report):
    """A report with its body as it came; bytes that are not UTF-8 are replaced."""

    body: str

    @classmethod
    def with_body(cls, report: Report, body: str) -> Self:
        """Return a report with its body."""
        return showing(cls, report, body=body)


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
    Success("The delivery, which is processed soon.", 202),
    role=Role.ADMIN,
)
def redeliver_to_repo(call: Call, repository: ThisRepository, delivery: ThisDelivery) -> Delivery:
    """Process a delivery again; needs the role admin. What was built is not built again."""
    call.storage.deliveries.redeliver(delivery)
    call.engine.deliveries_added()
    return _delivery(call, repository, delivery.uuid)


def _stored(call: Call, delivery_id: str) -> Delivery:
    found = call.storage.deliveries.find(delivery_id)
    if found is None:
        raise ApiError.not_found("delivery", delivery_id)
    return found


AnyDelivery = Annotated[Delivery, Found(_stored, ("delivery_not_found",))]
"""The delivery ``{delivery_id}``, for operations of the owner of the host."""


@owners_operation("listReports", GET, _REPORTS)
def list_reports(call: Call, span: Span) -> Page[Report]:
    """List what all source hosts reported in the last seven days, newest first."""
    page = call.storage.deliveries.page_of_all(span.limit, span.after)
    return Page(tuple(_report(call.storage, each) for each in page.rows), page.next_key)


@owners_operation("getReport", GET, f"{_REPORTS}/{{delivery_id}}")
def get_report(call: Call, delivery: AnyDelivery) -> ReportWithBody:
    """Show a report with its body."""
    return ReportWithBody.with_body(_report(call.storage, delivery), DeliveryWithBody.of(delivery).text)


@owners_operation("redeliverReport", POST, f"{_REPORTS}/{{delivery_id}}/redeliver")
def redeliver_report(call: Call, delivery: AnyDelivery) -> Report:
    """Process a report again. What was built is not built again."""
    call.storage.deliveries.redeliver(delivery)
    return _report(call.storage, _stored(call, delivery.uuid))


def _report(storage: Storage, delivery: Delivery) -> Report:
    about = None if delivery.repository_id is None else storage.repositories.get(delivery.repository_id)
    return Report.of(delivery, delivery.provider, None if about is None else about.url)
