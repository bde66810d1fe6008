"""Choices of a notification: the defaults, and what is refused."""

from __future__ import annotations

import pytest

from actors.notifications import NotificationInvalid, checked_events, endpoint_url, new_notification
from storage import NotificationKind

URL = "https://hooks.example.org/builds"


def test_people_hear_of_changes_and_webhooks_of_every_end():
    slack = new_notification(NotificationKind.SLACK, None, URL, to_creator=False)
    email = new_notification(NotificationKind.EMAIL, None, None, to_creator=True)
    webhook = new_notification(NotificationKind.WEBHOOK, None, URL, to_creator=False)
    assert email.events == ("build.first_failure", "build.recovered")
    assert slack.events == (*email.events, "gate.waiting")
    assert webhook.events == ("build.finished",)


def test_events_are_ordered_and_not_repeated():
    assert checked_events(["build.finished", "build.recovered", "build.finished"]) == (
        "build.recovered",
        "build.finished",
    )


@pytest.mark.parametrize(
    ("kind", "events", "url", "to_creator", "field"),
    [
        ("email", None, URL, False, "url"),
        ("slack", None, None, False, "url"),
        ("webhook", None, URL, True, "to_creator"),
        ("webhook", [], URL, False, "events"),
        ("webhook", ["build.started"], URL, False, "events"),
        ("webhook", ["gate.waiting"], URL, False, "events"),
        ("email", ["build.finished", "gate.waiting"], None, False, "events"),
    ],
)
def test_what_does_not_fit_is_refused(
    kind: str, events: list[str] | None, url: str | None, to_creator: bool, field: str
):
    with pytest.raises(NotificationInvalid) as refused:
        new_notification(NotificationKind(kind), events, url, to_creator=to_creator)
    assert refused.value.field == field


@pytest.mark.parametrize("url", [URL, "http://10.0.0.7:8080/a?b=c", "https://[2001:db8::1]/x"])
def test_a_url_stays_as_it_is(url: str):
    assert endpoint_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.org",
        "ftp://hooks.example.org",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://user:word@hooks.example.org/",
        "https://hooks.example.org/ a",
        "https://hooks.example.org/\r\nHost: other",
        "https://hooks.example.org\\@127.0.0.1/",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org/#part",
        "https://[::1",
        "https://hoöks.example.org/",
        "https://hooks.example.org/" + "a" * 2000,
    ],
)
def test_other_texts_are_no_endpoint(url: str):
    with pytest.raises(NotificationInvalid):
        endpoint_url(url)
