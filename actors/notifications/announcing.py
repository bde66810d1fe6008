"""From the end of a build to what is sent: mails and deliveries, written in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.notifications.build_texts import headline, subject_line
from actors.notifications.events import events_of
from actors.notifications.failed_steps import failed_steps
from actors.notifications.recipients import Recipient, recipient_of
from actors.notifications.slack import slack_message
from actors.notifications.webhook_body import webhook_body
from storage import BuildEvent, BuildState, NotificationKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.engine_settings import LiveSettings
    from actors.mail import Mails
    from actors.notifications.failed_steps import FailedStep
    from storage import Build, EndedBuild, Notification, Storage

__all__ = ["Announcements"]

_NO_SERVER = "the service has no mail server"
_FORK = "the build is of a pull request from a fork"
_TOO_MANY = "it had too many mails about builds in the last 15 minutes, or too many mails wait"


class Announcements:
    """Announces ends of builds to the notifications of their pipelines. Used by one thread at a time.

    An end and what is sent of it are one transaction, so that no crash loses or repeats any.
    """

    def __init__(
        self,
        *,
        storage: Storage,
        live_settings: LiveSettings,
        mails: Mails,
        describe: Callable[[Build], Mapping[str, object]],
    ) -> None:
        """Store the parts; ``describe`` returns a build as the API shows it."""
        self._storage = storage
        self._live_settings = live_settings
        self._mails = mails
        self._describe = describe

    def announce(self, ended: EndedBuild) -> None:
        """Announce the end of a build, unless it was announced, or the build was retried meanwhile."""
        storage = self._storage
        build = storage.builds.get(ended.build_id)
        if build is None or not build.state.terminal:
            storage.ended_builds.tell(ended, None)
            return
        counts = build.state is not BuildState.CANCELED and not self._is_of_fork(build)
        before = storage.ended_builds.last_told(build)
        events = events_of(build.number, build.state, before) if counts else (BuildEvent.FINISHED,)
        told = [(each, _wanted(each, events)) for each in storage.notifications.enabled(build.pipeline_id)]
        failed = failed_steps(storage, build) if any(wanted for _, wanted in told) else ()
        with storage.transaction():
            if not storage.ended_builds.tell(ended, build.state if counts else None):
                return
            for notification, wanted in told:
                for event in wanted:
                    self._tell(notification, event, build, failed)

    def _tell(self, notification: Notification, event: BuildEvent, build: Build, failed: Sequence[FailedStep]) -> None:
        url = self._live_settings.now.base_url
        deliveries = self._storage.notification_deliveries
        match notification.kind:
            case NotificationKind.EMAIL:
                self._mail(notification, event, build, failed)
            case NotificationKind.SLACK:
                body = slack_message(event, build, f"{url}/{build.page}", failed)
                deliveries.add(notification.id, event, build.number, body)
            case NotificationKind.WEBHOOK:
                at = build.recorded_at or build.created_at
                body = webhook_body(event, build, self._describe(build), url, at)
                deliveries.add(notification.id, event, build.number, body)

    def _mail(self, notification: Notification, event: BuildEvent, build: Build, failed: Sequence[FailedStep]) -> None:
        deliveries, settings = self._storage.notification_deliveries, self._live_settings.now
        recipient = self._recipient(notification, build)
        address, refusal = recipient.address, recipient.refusal
        if address is not None and refusal is None:
            page, error = f"{settings.base_url}/{build.page}", build.error_message or ""
            if self._mails.build(address, headline(event, build), subject_line(build), error, failed, page):
                deliveries.mailed(notification.id, event, build.number, address)
                return
            refusal = _TOO_MANY
        deliveries.skipped(notification.id, event, build.number, address, refusal or "")

    def _recipient(self, notification: Notification, build: Build) -> Recipient:
        if not self._live_settings.now.mail.host:
            return Recipient(None, _NO_SERVER)
        if self._is_of_fork(build):
            return Recipient(None, _FORK)
        storage = self._storage
        members = {each.email for each in storage.members.all(build.organization_id)}
        domains = {each.lower() for each in self._live_settings.now.notifications.mail_domains}
        return recipient_of(self._author(notification, build), members, domains, storage.mail_opt_outs.has)

    def _author(self, notification: Notification, build: Build) -> str | None:
        """Return the address of a commit's author; of a build without one its creator's, if those are told."""
        origin = self._storage.build_origins.get(build.id)
        if origin is not None:
            return origin.author_email
        if not notification.to_creator or build.created_by is None:
            return None
        creator = self._storage.users.by_id(build.created_by)
        return None if creator is None else creator.email

    def _is_of_fork(self, build: Build) -> bool:
        """Tell whether a build is of a fork's pull request, whose branch only has a name of ours."""
        origin = self._storage.build_origins.get(build.id)
        return build.untrusted_origin is not None or (origin is not None and origin.from_fork)


def _wanted(notification: Notification, events: Sequence[BuildEvent]) -> Sequence[BuildEvent]:
    """Return the events that a notification wants: of one end, people hear once, programs each."""
    wanted = [each for each in events if each in notification.events]
    return wanted if notification.kind is NotificationKind.WEBHOOK else wanted[:1]
