"""The host of a service, as the owner's operations use it, opened as far as they do."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors import RetentionSettings
    from actors.forks import ForkRun, Forks, RunOutcome
    from actors.mail import MailSettings
    from actors.repositories import RepositorySettings
    from actors.source_hosts import Installations
    from actors.vms import Images, Providers
    from api.operations import Shell, Target
    from ci_daemon.config import Config
    from storage import Build, Clock, Job, Storage


class OwnersBox:
    """The host of the service of a state directory. Each part raises ConfigError of a wrong configuration."""

    def __init__(self, state_dir: Path, storage: Storage, clock: Clock) -> None:
        self._state_dir = state_dir
        self._storage = storage
        self._clock = clock

    @cached_property
    def _config(self) -> Config:
        from ci_daemon.config import load  # noqa: PLC0415 - most operations need no configuration

        return load(self._state_dir, os.environ)

    @cached_property
    def _images(self) -> Images:
        from ci_daemon.providers import open_images  # noqa: PLC0415 - what makes VMs takes long to import

        return open_images(self._state_dir, self._config)

    @cached_property
    def providers(self) -> Providers:
        """The makers of VMs."""
        from ci_daemon.providers import open_providers  # noqa: PLC0415 - as above

        return open_providers(self._state_dir, self._config, self._images, self._clock)

    @property
    def repositories(self) -> RepositorySettings:
        """The bounds of reading repositories."""
        return self._config.repositories

    @property
    def retention(self) -> RetentionSettings:
        """The ages and sizes of what is kept."""
        return self._config.retention

    @property
    def mail(self) -> MailSettings:
        """The mail server."""
        return self._config.mail

    @property
    def url(self) -> str:
        """The configured address of the service."""
        return self._config.http.url

    def serves(self) -> bool:
        """Tell whether the service runs."""
        from ci_daemon.host.lock import served_by  # noqa: PLC0415 - few operations ask

        return served_by(self._state_dir) is not None

    def installations(self) -> Installations | None:
        """Return the installations of the GitHub app; None if there is no app."""
        from ci_daemon.source_hosts import open_github  # noqa: PLC0415 - few operations ask GitHub

        if not self._config.github.configured:
            return None
        return open_github(self._storage, self._config, self._clock).installations

    @cached_property
    def _forks(self) -> Forks:
        from actors.forks import Forks  # noqa: PLC0415 - what makes VMs, as above
        from ci_daemon.reload import engine_settings  # noqa: PLC0415 - as above

        settings = engine_settings(self._config, self.url, ("127.0.0.1", 0))
        return Forks(self._storage, self.providers, self._images, self._clock, lambda: settings, lambda: None)

    def run_on_fork(
        self, build: Build, job: Job, run: ForkRun, *, opened_by: str, gone: Callable[[], bool]
    ) -> RunOutcome:
        """Run a command on a fork of a job's disk. Raises as the engine of the service does."""
        from actors import EngineBusy, forks  # noqa: PLC0415 - what makes VMs, as above
        from actors.vms import VmError  # noqa: PLC0415 - as above

        try:
            return forks.run(self._forks, build, job, run, opened_by=opened_by, gone=gone)
        except (forks.ForkBusy, VmError) as error:
            raise EngineBusy(f"no VM can be made for the fork: {error}") from error

    def open_fork(self, build: Build, job: Job, *, before: bool, opened_by: str) -> Shell:
        """Make a VM with a fork of a job's disk, and connect to it. Raises Refused and VmError."""
        from actors.forks import DiskGone, ForkBusy  # noqa: PLC0415 - what makes VMs, as above
        from api.operations import Refused  # noqa: PLC0415 - as above
        from ci_daemon.debug import ForkShell  # noqa: PLC0415 - as above

        try:
            return ForkShell(self._forks, self.providers, build, job, before=before, opened_by=opened_by)
        except (DiskGone, ForkBusy) as error:
            raise Refused(str(error)) from error

    def open_shell(self, target: Target) -> Shell:
        """Connect to a job's VM. Raises VmError."""
        from ci_daemon.debug import open_shell  # noqa: PLC0415 - SSH, which one operation needs

        return open_shell(self._storage, self._images, self.providers, self._config, target)
