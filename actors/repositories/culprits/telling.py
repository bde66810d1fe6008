"""News of searches that have ended: a mail to the author of the commit, and the text at its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import BuildEvent, CulpritState, NotificationKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.repositories.culprits.choosing import Verdict
    from actors.settings import LiveSettings
    from storage import Build, CulpritSearch, Notification, Storage

CULPRIT_EVENT = "build.culprit"
"""The event of deliveries about a culprit."""

_SHORT = 12
_EVENTS = (BuildEvent.FIRST_FAILURE, BuildEvent.FINISHED)
_TOO_MANY = "it had too many mails about builds in the last 15 minutes, or too many mails wait"


class CulpritTelling:
    """Writes what is told of culprits. Safe in any thread."""

    def __init__(self, storage: Storage, live_settings: LiveSettings) -> None:
        self._storage = storage
        self._live_settings = live_settings

    def prepared(
        self, search: CulpritSearch, verdict: Verdict, subject: str | None, author: tuple[str, str] | None
    ) -> Callable[[], None]:
        """Return what writes it, in the caller's transaction; the texts are made here.

        ``subject`` and ``author``, a name and an address, are those of the commit that the verdict is about.
        """
        storage = self._storage
        build = storage.builds.get(search.build_id)
        if build is None or verdict.commit is None:
            return lambda: None
        wanted = [
            each
            for each in storage.notifications.enabled(build.pipeline_id)
            if each.kind is NotificationKind.EMAIL and not {*_EVENTS}.isdisjoint(each.events)
        ]
        writes = [self._mail(each, build, search, verdict, subject, author) for each in wanted[:1]]

        def write() -> None:
            storage.build_origins.amend(build.id)
            for each in writes:
                each()

        return write

    def _mail(
        self,
        notification: Notification,
        build: Build,
        search: CulpritSearch,
        verdict: Verdict,
        subject: str | None,
        author: tuple[str, str] | None,
    ) -> Callable[[], object]:
        from actors.mail.mails import Mails  # noqa: PLC0415 - few searches end with a mail
        from actors.notifications.announcing import recipient_for  # noqa: PLC0415 - the same

        settings, storage = self._live_settings.now, self._storage
        recipient = recipient_for(storage, settings, build, None if author is None else author[1])
        deliveries, to = storage.notification_deliveries, recipient.address
        if to is None or recipient.refusal is not None:

            def skip() -> object:
                return deliveries.skipped(notification.id, CULPRIT_EVENT, build.number, to, recipient.refusal or "")

            return skip
        commit = (verdict.commit or "")[:_SHORT]
        broke = f'{commit} broke "{search.step_key}"'
        flaky = f'"{search.step_key}" is flaky on {commit}'
        headline = f"{build.name}: {broke if verdict.state is CulpritState.FOUND else flaky}"
        mails = Mails(storage, settings.base_url, settings.pages)
        page = settings.pages.page_of(build)
        about, pages = f"{commit} {subject or ''}", self._pages(build, verdict)
        letter = mails.build_letter(to, headline, about, pages, f"{verdict.reason}.", (), page)

        def write() -> object:
            if mails.build(to, letter):
                return deliveries.mailed(notification.id, CULPRIT_EVENT, build.number, to)
            return deliveries.skipped(notification.id, CULPRIT_EVENT, build.number, to, _TOO_MANY)

        return write

    def _pages(self, build: Build, verdict: Verdict) -> list[tuple[str, str]]:
        """Return the page of the commit at its source host, with its name; none without one."""
        from actors.source_hosts import HostPages  # noqa: PLC0415 - as above

        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        repository = None if pipeline is None else self._storage.repositories.of_pipeline(pipeline)
        pages = HostPages.of(repository)
        return [("Commit", pages.commit(verdict.commit))] if pages is not None and verdict.commit else []
