"""The actors that poll the storage; only a service that others can reach needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from actors.composition import ChildSpec
from actors.mail import Mails
from actors.mail.sender import MailSender
from actors.notifications.announcing import Announcements
from actors.notifications.notifier import Notifier
from actors.repositories import MIRRORS
from actors.repositories.commit_builds import CommitBuilds
from actors.repositories.pull_requests import PullRequestBuilds
from actors.repositories.pushes import PushBuilds
from actors.repositories.reruns import HostApprovals, Reruns
from actors.repositories.watcher import RepositoryWatcher
from actors.schedules.runner import ScheduleRunner
from actors.source_hosts.reporting import StatusReporter
from actors.supervision import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from actors.addresses import Address
    from actors.composition import Composition
    from actors.messages import (
        MailSenderMessage,
        NotifierMessage,
        RepositoryWatcherMessage,
        ScheduleRunnerMessage,
        StatusReporterMessage,
    )
    from actors.source_hosts.host import SourceHost
    from storage import Build


@dataclass(frozen=True)
class PollerComposition:
    """The actors for mail, repositories, schedules, source hosts and notifications.

    ``describe_build`` returns a build as the API shows it.
    """

    parts: Composition
    hosts: Mapping[str, SourceHost]
    describe_build: Callable[[Build], Mapping[str, object]]

    @property
    def pollers(self) -> tuple[ChildSpec, ...]:
        """All of them, in the order of their start."""
        addresses = self.parts.addresses
        return (
            ChildSpec(MailSender, addresses.mail, self._mail_sender),
            ChildSpec(RepositoryWatcher, addresses.repositories, self._repository_watcher),
            ChildSpec(ScheduleRunner, addresses.schedules, self._schedule_runner),
            ChildSpec(StatusReporter, addresses.statuses, self._status_reporter),
            ChildSpec(Notifier, addresses.notifications, self._notifier),
        )

    @property
    def _mirrors(self) -> Path:
        return self.parts.storage.directory / MIRRORS

    @cached_property
    def _pushes(self) -> PushBuilds:
        storage, live_settings, hosts = self.parts.storage, self.parts.live_settings, self.hosts
        commits = CommitBuilds(
            storage=storage,
            discovery=self.parts.discovery,
            live_settings=live_settings,
            root=self.parts.addresses.root,
            hosts=hosts,
        )
        pull_requests = PullRequestBuilds(storage=storage, live_settings=live_settings, commits=commits, hosts=hosts)
        return PushBuilds(
            storage=storage,
            live_settings=live_settings,
            commits=commits,
            pull_requests=pull_requests,
            approvals=HostApprovals(storage=storage, commits=commits, hosts=hosts),
            reruns=Reruns(storage=storage, live_settings=live_settings, root=self.parts.addresses.root, hosts=hosts),
            mirrors=self._mirrors,
            hosts=hosts,
            watchers=self.parts.watchers,
        )

    def _mail_sender(self) -> Address[MailSenderMessage]:
        return spawn(MailSender, self.parts)

    def _repository_watcher(self) -> Address[RepositoryWatcherMessage]:
        return spawn(RepositoryWatcher, self.parts, pushes=self._pushes, hosts=self.hosts)

    def _schedule_runner(self) -> Address[ScheduleRunnerMessage]:
        return spawn(ScheduleRunner, self.parts, pushes=self._pushes)

    def _status_reporter(self) -> Address[StatusReporterMessage]:
        return spawn(StatusReporter, self.parts, hosts=self.hosts)

    def _notifier(self) -> Address[NotifierMessage]:
        settings = self.parts.live_settings.now
        mails = Mails(self.parts.storage, settings.base_url, settings.pages)
        return spawn(Notifier, self.parts, Announcements(self.parts, mails=mails, describe=self.describe_build))
