"""The choices of a notification: its kind, its events and its endpoint. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from storage import BuildEvent, NewNotification, NotificationKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_URL = 2000
_CHANGES = (BuildEvent.FIRST_FAILURE.value, BuildEvent.RECOVERED.value)
_DEFAULTS = {
    NotificationKind.EMAIL: _CHANGES,
    NotificationKind.SLACK: (*_CHANGES, BuildEvent.GATE_WAITING.value),
    NotificationKind.WEBHOOK: (BuildEvent.FINISHED.value,),
}


class NotificationInvalid(ValueError):
    """A choice is not possible; the message says why, and ``field`` is its name."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


def new_notification(
    kind: NotificationKind, events: Iterable[str] | None, url: str | None, *, to_creator: bool
) -> NewNotification:
    """Return a notification to create. Without events, people hear of changes, and webhooks of every end.

    Raises NotificationInvalid.
    """
    if kind is NotificationKind.EMAIL and url is not None:
        raise NotificationInvalid("url", "expected none for e-mail, which goes to the author of the commit")
    if kind is not NotificationKind.EMAIL and url is None:
        raise NotificationInvalid("url", f"expected the URL that receives the {kind} messages")
    if to_creator and kind is not NotificationKind.EMAIL:
        raise NotificationInvalid("to_creator", "expected only for e-mail")
    chosen = _DEFAULTS[kind] if events is None else checked_events(events)
    check_kind(kind, chosen)
    return NewNotification(
        kind,
        chosen,
        None if url is None else endpoint_url(url),
        to_creator=to_creator,
    )


def checked_events(events: Iterable[str]) -> tuple[str, ...]:
    """Return events without repetitions, in the order of `BuildEvent`. Raises NotificationInvalid."""
    wanted = set(events)
    unknown = sorted(wanted - set(BuildEvent))
    if unknown or not wanted:
        raise NotificationInvalid("events", f"expected some of {', '.join(BuildEvent)}")
    return tuple(each.value for each in BuildEvent if each in wanted)


def check_kind(kind: NotificationKind, events: Iterable[str]) -> None:
    """Raise NotificationInvalid for an event that a kind of notification never tells.

    Approvers get mails anyway, and a webhook is about builds.
    """
    if kind is not NotificationKind.SLACK and BuildEvent.GATE_WAITING in events:
        raise NotificationInvalid("events", f"expected {BuildEvent.GATE_WAITING} for Slack alone")


def endpoint_url(text: str) -> str:
    """Return the URL of an endpoint. Raises NotificationInvalid."""
    expected = NotificationInvalid("url", "expected a URL such as https://hooks.example.org/builds")
    if len(text) > _MAX_URL or not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise expected
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise expected from None
    if parts.scheme not in {"https", "http"} or not parts.hostname or port == 0 or parts.fragment:
        raise expected
    if "@" in parts.netloc:
        raise NotificationInvalid("url", "expected no user or password: every delivery of a webhook is signed")
    return text
