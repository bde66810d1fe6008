"""The actors that poll the storage; only a service that others can reach needs them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from actors.composition import ChildSpec
from actors.forks.prover import Prover
from actors.mail.sender import MailSender
from actors.notifications.notifier import Notifier
from actors.repositories import MIRRORS
from actors.repositories.culprit_finder import CulpritFinder
from actors.repositories.source_fetcher import SourceFetcher
from actors.repositories.watcher import RepositoryWatcher
from actors.schedules.runner import ScheduleRunner
from actors.source_hosts.reporting import StatusReporter
from actors.supervision import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from actors.addresses import Address
    from actors.composition import Composition
    from actors.messages import (
        CulpritFinderMessage,
        MailSenderMessage,
        NotifierMessage,
        ProverMessage,
        RepositoryWatcherMessage,
        ScheduleRunnerMessage,
        SourceFetcherMessage,
        StatusReporterMessage,
    )
    from actors.notifications.announcing import Announcements
    from actors.render.yaml_files import FoundFiles
    from actors.repositories.pushes import PushBuilds
    from actors.source_hosts.host import SourceHost
    from storage import Build


@dataclass(frozen=True)
class PollerComposition:
    """The actors for mail, repositories, schedules, culprits, source hosts and notifications.

    ``describe_build`` returns a build as the API shows it.
    """

    parts: Composition
    hosts: Mapping[str, SourceHost]
    describe_build: Callable[[Build], Mapping[str, object]]
    making: threading.Lock = field(default_factory=threading.Lock, init=False)
    """Held by the actor that makes what several use."""

    @property
    def pollers(self) -> tuple[ChildSpec, ...]:
        """All of them, in the order of their start."""
        addresses = self.parts.addresses
        self.parts.job_files.come_from(self._job_files)
        return (
            ChildSpec(MailSender, addresses.mail, self._mail_sender),
            ChildSpec(RepositoryWatcher, addresses.repositories, self._repository_watcher),
            ChildSpec(ScheduleRunner, addresses.schedules, self._schedule_runner),
            ChildSpec(CulpritFinder, addresses.culprits, self._culprit_finder),
            ChildSpec(SourceFetcher, addresses.sources, self._source_fetcher),
            ChildSpec(StatusReporter, addresses.statuses, self._status_reporter),
            ChildSpec(Notifier, addresses.notifications, self._notifier),
            ChildSpec(Prover, addresses.proofs, self._prover),
        )

    @property
    def _mirrors(self) -> Path:
        return self.parts.storage.directory / MIRRORS

    def _pushes(self) -> PushBuilds:
        """Return what builds pushes, which is imported when a repository is looked at first."""
        with self.making:
            return self._made_pushes

    @cached_property
    def _made_pushes(self) -> PushBuilds:
        # A service without repositories never needs them, nor does one that has just started.
        from actors.repositories.commit_builds import CommitParts  # noqa: PLC0415 - see above
        from actors.repositories.pushes import PushBuilds  # noqa: PLC0415 - see above

        parts = self.parts
        commits = CommitParts(
            storage=parts.storage,
            clock=parts.clock,
            discovery=parts.discovery,
            live_settings=parts.live_settings,
            root=parts.addresses.root,
            hosts=self.hosts,
        )
        return PushBuilds(commits, self._mirrors, parts.watchers)

    def _job_files(self, organization: str, names: Sequence[str]) -> FoundFiles:
        """Return files of jobs of connected repositories."""
        from actors.repositories.job_files import ConnectedJobFiles  # noqa: PLC0415 - few pipelines use any

        return ConnectedJobFiles(self.parts.storage, self.parts.live_settings, self.hosts).fetch(organization, names)

    def _mail_sender(self) -> Address[MailSenderMessage]:
        return spawn(MailSender, self.parts)

    def _repository_watcher(self) -> Address[RepositoryWatcherMessage]:
        return spawn(RepositoryWatcher, self.parts, pushes=self._pushes, hosts=self.hosts)

    def _schedule_runner(self) -> Address[ScheduleRunnerMessage]:
        return spawn(ScheduleRunner, self.parts, pushes=self._pushes)

    def _culprit_finder(self) -> Address[CulpritFinderMessage]:
        return spawn(CulpritFinder, self.parts, pushes=self._pushes)

    def _source_fetcher(self) -> Address[SourceFetcherMessage]:
        return spawn(SourceFetcher, self.parts, pushes=self._pushes, recorder=self.parts.recorder, hosts=self.hosts)

    def _status_reporter(self) -> Address[StatusReporterMessage]:
        return spawn(StatusReporter, self.parts, hosts=self.hosts)

    def _notifier(self) -> Address[NotifierMessage]:
        return spawn(Notifier, self.parts, self._announcements)

    def _prover(self) -> Address[ProverMessage]:
        return spawn(Prover, self.parts)

    def _announcements(self) -> Announcements:
        from actors.mail.mails import Mails  # noqa: PLC0415 - as below
        from actors.notifications.announcing import Announcements  # noqa: PLC0415 - for the first build that ends

        settings = self.parts.live_settings.now
        mails = Mails(self.parts.storage, settings.base_url, settings.pages)
        return Announcements(self.parts, mails=mails, describe=self.describe_build)
