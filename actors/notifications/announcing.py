"""From the end of a build to what is sent to whom: mails and deliveries, written in one transaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, assert_never

from actors import source_hosts
from actors.notifications.messages import (
    TEST_EVENT,
    failed_steps,
    headline,
    host_pages,
    slack_message,
    slack_test,
    subject_line,
    webhook_body,
    webhook_test,
)
from storage import BuildEvent, BuildState, CulpritState, EmailInvalid, NotificationKind, email_address, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from actors.mail import FailedStep, Mails
    from actors.parts import Parts
    from actors.settings import EngineSettings
    from storage import Build, EndedBuild, Notification, NotificationDelivery, Pipeline, Storage, ToldEnd

_NOBODY = "the build has no commit author, and to_creator is off"
_NO_SERVER = "the service has no mail server"
_FORK = "the build is of a pull request from a fork"
_TOO_MANY = "it had too many mails about builds in the last 15 minutes, or too many mails wait"


def events_of(number: int, state: BuildState, before: ToldEnd | None) -> tuple[BuildEvent, ...]:
    """Return the events of a build's end, the most particular first.

    ``before`` is the end that was told last of its branch: of an earlier build, or of this one before it was retried. A
    build that ends after a newer one of its branch says nothing about the branch any more, and neither does one that
    was canceled.
    """
    overtaken = before is not None and before.number > number
    failed_before = before is not None and before.state is BuildState.FAILED
    if state is BuildState.FAILED and not failed_before and not overtaken:
        return BuildEvent.FIRST_FAILURE, BuildEvent.FINISHED
    if state is BuildState.PASSED and failed_before and not overtaken:
        return BuildEvent.RECOVERED, BuildEvent.FINISHED
    return (BuildEvent.FINISHED,)


@immutable
class Recipient:
    """The address that a build's mail goes to, or why nobody is written to."""

    address: str | None
    refusal: str | None = None


def recipient_of(
    candidate: str | None, members: Collection[str], domains: Collection[str], opted_out: Callable[[str], bool]
) -> Recipient:
    """Return the recipient of a build's mail.

    The author of a commit is what its pusher wrote there: anybody could make the service write to strangers.

    Args:
        candidate: the address of the commit's author, or of the build's creator.
        members: the addresses of the organization's members, which are proven.
        domains: those whose addresses get mail without an account.
        opted_out: tells whether an address wants no mail about builds.
    """
    if candidate is None:
        return Recipient(None, _NOBODY)
    try:
        address = email_address(candidate)
    except EmailInvalid:
        return Recipient(None, "the commit's author has no valid address")
    if address not in members and address.rpartition("@")[2] not in domains:
        return Recipient(address, "it is no member's address, and its domain is not in notifications.mail_domains")
    if opted_out(address):
        return Recipient(address, "its owner wants no mail about builds")
    return Recipient(address)


def recipient_for(storage: Storage, settings: EngineSettings, build: Build, candidate: str | None) -> Recipient:
    """Return the recipient of a mail about a build.

    The ``candidate`` is the address of a commit's author, or that of the build's creator.
    """
    if not settings.mail.host:
        return Recipient(None, _NO_SERVER)
    if build.from_fork:  # its branch only has a name of ours
        return Recipient(None, _FORK)
    members = {each.email for each in storage.members.all(build.organization_id)}
    domains = {each.lower() for each in settings.notifications.mail_domains}
    return recipient_of(candidate, members, domains, storage.mail_opt_outs.has)


class Announcements:
    """Announces ends of builds to the notifications of their pipelines. Used by one thread at a time.

    An end, what is sent of it and the pipelines that follow it are one transaction, so that no crash loses or repeats
    any.
    """

    def __init__(self, parts: Parts, *, mails: Mails, describe: Callable[[Build], Mapping[str, object]]) -> None:
        """Store the parts; ``describe`` returns a build as the API shows it."""
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._mails = mails
        self._describe = describe

    def announce(self, ended: EndedBuild) -> None:
        """Announce the end of a build, unless it was announced, or the build was retried meanwhile."""
        storage = self._storage
        build = storage.builds.get(ended.build_id)
        if build is None or not build.state.terminal:
            storage.ended_builds.tell(ended, None)
            return
        if build.culprit_search_id is not None:  # the search says what came of it
            storage.ended_builds.tell(ended, None)
            return
        counts = build.state is not BuildState.CANCELED and not build.from_fork and not build.refused
        before = storage.ended_builds.last_told(build)
        events = events_of(build.number, build.state, before) if counts else (BuildEvent.FINISHED,)
        told = [
            (notification, event)
            for notification in storage.notifications.enabled(build.pipeline_id)
            for event in _wanted(notification, events)
        ]
        failed = failed_steps(storage, build) if told else ()
        writes = [self._prepared(notification, event, build, failed) for notification, event in told]
        with storage.transaction():
            if storage.ended_builds.tell(ended, build.state if counts else None):
                for write in writes:
                    write()
                pipeline = storage.pipelines.by_id(build.pipeline_id)
                if counts and pipeline is not None:
                    storage.pipeline_triggers.follow(build, pipeline)
                    self._search_culprit(build, pipeline)

    def _search_culprit(self, build: Build, pipeline: Pipeline) -> None:
        """Begin the search for the commit that broke a build, in the caller's transaction.

        A build that passes after all, because it was retried, ends its search.
        """
        storage = self._storage
        search = storage.culprits.of_build(build.id) if build.state is BuildState.PASSED else None
        if search is not None:
            storage.culprits.end(search, CulpritState.FLAKY, "it passed when it was retried", build.commit)
        wanted = storage.pipelines.find_culprits(pipeline.id)
        if wanted is None:
            wanted = self._live_settings.now.repositories.find_culprits
        if wanted and build.state is BuildState.FAILED and storage.repositories.of_pipeline(pipeline) is not None:
            storage.culprits.begin(build)

    def _prepared(
        self, notification: Notification, event: BuildEvent, build: Build, failed: Sequence[FailedStep]
    ) -> Callable[[], object]:
        """Return what writes a delivery or a mail; its text is made here, as a transaction holds up others."""
        page, at = self._live_settings.now.pages.page_of(build), build.recorded_at or build.created_at
        match notification.kind:
            case NotificationKind.EMAIL:
                return self._prepared_mail(notification, event, build, failed, page)
            case NotificationKind.SLACK:
                body = slack_message(event, build, page, failed, self._pages(build))
            case NotificationKind.WEBHOOK:
                body = webhook_body(event, build, self._describe(build), page, at)
            case _:
                assert_never(notification.kind)
        return partial(self._storage.notification_deliveries.add, notification.id, event, build.number, body)

    def _pages(self, build: Build) -> source_hosts.BuildPages:
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        repository = None if pipeline is None else self._storage.repositories.of_pipeline(pipeline)
        return source_hosts.BuildPages.of(build, repository, self._storage.build_origins.get(build.id))

    def _prepared_mail(
        self, notification: Notification, event: BuildEvent, build: Build, failed: Sequence[FailedStep], page: str
    ) -> Callable[[], object]:
        deliveries, recipient = self._storage.notification_deliveries, self._recipient(notification, build)
        of_event = (notification.id, event, build.number, recipient.address)
        if recipient.address is None or recipient.refusal is not None:
            return partial(deliveries.skipped, *of_event, recipient.refusal or "")
        to, mails = recipient.address, self._mails
        pages, error = host_pages(self._pages(build)), build.error_message or ""
        letter = mails.build_letter(to, headline(event, build), subject_line(build), pages, error, failed, page)

        def write() -> None:
            if mails.build(to, letter):
                deliveries.mailed(notification.id, event, build.number, to)
            else:
                deliveries.skipped(*of_event, _TOO_MANY)

        return write

    def _recipient(self, notification: Notification, build: Build) -> Recipient:
        return recipient_for(self._storage, self._live_settings.now, build, self._author(notification, build))

    def _author(self, notification: Notification, build: Build) -> str | None:
        """Return the address of a commit's author; of a build without one its creator's, if those are told."""
        origin = self._storage.build_origins.get(build.id)
        if origin is not None:
            return origin.author_email
        if not notification.to_creator or build.created_by is None:
            return None
        creator = self._storage.users.by_id(build.created_by)
        return None if creator is None or creator.machine else creator.email


def _wanted(notification: Notification, events: Sequence[BuildEvent]) -> Sequence[BuildEvent]:
    """Return the events that a notification wants: for one end one for people, all for programs."""
    wanted = [each for each in events if each in notification.events]
    return wanted if notification.kind is NotificationKind.WEBHOOK else wanted[:1]


def deliver_test(
    storage: Storage, notification: Notification, organization: str, pipeline: Pipeline, now: datetime
) -> NotificationDelivery:
    """Add a test delivery to the endpoint of a notification; ``organization`` is a slug."""
    if notification.kind is NotificationKind.SLACK:
        body = slack_test(f"{organization}/{pipeline.slug}")
    else:
        body = webhook_test(organization, pipeline.slug, now)
    return storage.notification_deliveries.add(notification.id, TEST_EVENT, None, body)


def mail_test(
    storage: Storage, mails: Mails | None, notification: Notification, name: str, to: str
) -> NotificationDelivery:
    """Write a test mail for a notification of ORG/PIPELINE; ``mails`` is None without a mail server."""
    deliveries = storage.notification_deliveries
    with storage.transaction():
        if mails is None:
            return deliveries.skipped(notification.id, TEST_EVENT, None, to, "the service has no mail server")
        if not mails.test(to, name):
            return deliveries.skipped(notification.id, TEST_EVENT, None, to, "it had too many tests in 15 minutes")
        return deliveries.mailed(notification.id, TEST_EVENT, None, to)
