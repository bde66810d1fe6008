"""Notifications of ended builds, what was sent, and e-mail."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.builds import BuildState

__all__ = [
    "BuildEvent",
    "DeliveryState",
    "EndedBuild",
    "Endpoint",
    "EndpointAnswer",
    "FailingNotification",
    "Letter",
    "Mail",
    "MailTotals",
    "NewNotification",
    "Notification",
    "NotificationDelivery",
    "NotificationKind",
    "ToldEnd",
]


class NotificationKind(StrEnum):
    """The ways to tell: a signed webhook, a Slack-compatible one, or e-mail to a build's author."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"


class BuildEvent(StrEnum):
    """The events of a build's end, the most particular first.

    ``build.first_failure``: the branch failed and had not failed before. ``build.recovered``: it passed after
    failures.
    """

    FIRST_FAILURE = "build.first_failure"
    RECOVERED = "build.recovered"
    FINISHED = "build.finished"


@immutable
class NewNotification:
    """A notification to create; e-mail has no ``url``. ``to_creator`` is for e-mail alone."""

    kind: NotificationKind
    events: tuple[str, ...]
    url: str | None = None
    to_creator: bool = False


@immutable
class Notification:
    """Events of a pipeline's builds, and where they are told.

    ``origin`` is the part of an endpoint's URL that is shown. ``failing_since`` is when deliveries began to fail, with
    ``last_error``; ``disabled_at`` is when it was disabled.
    """

    id: int
    uuid: str
    pipeline_id: int
    kind: NotificationKind
    events: tuple[str, ...]
    origin: str | None
    to_creator: bool
    created_at: datetime
    failing_since: datetime | None
    last_error: str | None
    disabled_at: datetime | None

    @property
    def enabled(self) -> bool:
        """True if events are told."""
        return self.disabled_at is None


@immutable
class Endpoint:
    """The URL of a notification, and the secrets that sign what is sent to it, the newest first."""

    url: str
    secrets: tuple[str, ...]


@immutable
class FailingNotification:
    """A notification whose deliveries fail; it is disabled if ``disabled_at`` is set."""

    uuid: str
    organization_slug: str
    pipeline_slug: str
    failing_since: datetime
    last_error: str
    disabled_at: datetime | None


@immutable
class EndpointAnswer:
    """The answer of an endpoint: its status and the beginning of its text, or why there is none."""

    status: int | None
    text: str
    duration_ms: int
    error: str | None

    @property
    def gone(self) -> bool:
        """True if the endpoint says that it will never come back."""
        return self.status == 410  # noqa: PLR2004 - Gone


class DeliveryState(StrEnum):
    """The state of a delivery: it waits, arrived, was given up, or nobody was to be written to."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"
    SKIPPED = "skipped"


@immutable
class NotificationDelivery:
    """One event for one notification; its ``uuid`` names every attempt.

    It waits while ``next_attempt_at`` is set. E-mail has a ``recipient`` instead of a ``body``, and is delivered once
    it is handed to the mail sender; without an attempt, ``last_error`` is why nobody was written to.
    """

    id: int
    uuid: str
    notification_id: int
    event: str
    build_number: int | None
    recipient: str | None
    body: str | None
    created_at: datetime
    attempts: int
    next_attempt_at: datetime | None
    status: int | None
    answer: str | None
    duration_ms: int | None
    last_error: str | None
    delivered_at: datetime | None

    @property
    def state(self) -> DeliveryState:
        """The state, as it follows from the other fields."""
        if self.next_attempt_at is not None:
            return DeliveryState.WAITING
        if self.delivered_at is not None:
            return DeliveryState.DELIVERED
        return DeliveryState.FAILED if self.attempts else DeliveryState.SKIPPED


@immutable
class EndedBuild:
    """The recorded end of a build that is not told yet."""

    build_id: int
    recorded_at: datetime


@immutable
class ToldEnd:
    """The last end on a branch that was told: the build's number, and whether it passed or failed."""

    number: int
    state: BuildState


@immutable
class Letter:
    """The content of an e-mail: its subject, the same body twice, and a link that ends such mail."""

    subject: str
    text: str
    html: str
    stop_link: str | None = None


@immutable
class Mail:
    """An e-mail to one address, without its content.

    It waits while ``next_attempt_at`` is set, and is not sent after ``expires_at``.
    """

    id: int
    uuid: str
    recipient: str
    kind: str
    created_at: datetime
    expires_at: datetime | None
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None
    sent_at: datetime | None
    given_up_at: datetime | None


@immutable
class MailTotals:
    """Counts of mails: those that wait, those among them with a failed attempt, those given up lately."""

    waiting: int
    deferred: int
    given_up: int
