"""Notifications of ended builds, what was sent, and e-mail."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from storage.data_classes import hidden, immutable, shown_as
from storage.documents import showing, shown_after

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.builds import BuildState


class NotificationKind(StrEnum):
    """The ways to tell: a signed webhook, a Slack-compatible one, or e-mail to a build's author."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"


class BuildEvent(StrEnum):
    """The events of a build's end, the most particular first, and of a job that waits for an approval.

    ``build.first_failure``: the branch failed and had not failed before. ``build.recovered``: it passed after
    failures.
    """

    FIRST_FAILURE = "build.first_failure"
    RECOVERED = "build.recovered"
    FINISHED = "build.finished"
    GATE_WAITING = "gate.waiting"


@immutable
class NewNotification:
    """A notification to create; e-mail has no ``url``. ``to_creator`` is for e-mail alone."""

    kind: NotificationKind
    events: tuple[str, ...]
    url: str | None = None
    to_creator: bool = False


@immutable
class Notification:
    """A notification. ``origin`` is the part of its URL that is shown; null for e-mail.

    ``failing_since`` is set while its deliveries fail, with the reason in ``last_error``. After three days it is
    disabled.
    """

    id: int
    uuid: str
    pipeline_id: int = hidden()
    kind: NotificationKind
    events: tuple[str, ...]
    origin: str | None
    to_creator: bool
    enabled: bool
    """True if ``disabled_at`` is not set."""

    disabled_at: datetime | None = hidden()
    failing_since: datetime | None
    last_error: str | None
    created_at: datetime


@immutable
class CreatedNotification(Notification):
    """A notification with its secret, which is shown only now; null for other kinds than webhooks."""

    secret: str | None

    @classmethod
    def of(cls, notification: Notification, secret: str | None) -> Self:
        """Return a notification with its new secret."""
        return showing(cls, notification, secret=secret)


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
    """A delivery; its ``id`` is the header ``webhook-id`` of every attempt.

    ``state`` is ``waiting``, ``delivered``, ``failed``, or ``skipped`` if ``last_error`` says why there was no attempt.
    ``http_status``, ``answer`` and ``duration_ms`` are those of the last attempt; of the answer it is the first 2 KB.
    """

    id: int
    uuid: str
    notification_id: int = hidden()
    event: str
    build_number: int | None
    recipient: str | None
    """The address of an e-mail, which is delivered once it is handed to the mail sender."""

    body: str | None
    """None for e-mail."""

    attempts: int
    next_attempt_at: datetime | None
    """None if it does not wait."""

    status: int | None = shown_as("http_status")
    answer: str | None
    duration_ms: int | None
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None

    @property
    @shown_after("build_number")
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
