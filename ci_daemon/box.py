"""The host of a service, as the owner's operations use it.

For a command it is opened as far as that needs. In the service it has the parts that the service has open, and the
configuration in effect.
"""

from __future__ import annotations

import os
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from actors import PoolSettings, RetentionSettings
    from actors.forks import Forks, ForkWork
    from actors.mail import MailSettings
    from actors.repositories import RepositorySettings
    from actors.scheduling import Capacity
    from actors.source_hosts import Installations
    from actors.vms import Images, Providers
    from actors.vms.images import PullOptions
    from api.operations import Shell, Target
    from api.operations import host as host_operations
    from ci_daemon.config import Config
    from storage import Build, Clock, Job, Storage

T = TypeVar("T")

_GB = 2**30
_EXAMINATION_SECONDS = 120.0


class OwnersBox:
    """The host of the service of a state directory. Each part raises ConfigError of a wrong configuration.

    ``config`` returns the configuration.
    """

    def __init__(self, state_dir: Path, storage: Storage, clock: Clock, config: Callable[[], Config]) -> None:
        self._state_dir = state_dir
        self._storage = storage
        self._clock = clock
        self._configured = config

    @classmethod
    def of_command(cls, state_dir: Path, storage: Storage, clock: Clock) -> OwnersBox:
        """Return the host as a command uses it, which loads the configuration if it is needed."""

        @cache
        def configured() -> Config:
            from ci_daemon.config import load  # noqa: PLC0415 - most operations need no configuration

            return load(state_dir, os.environ)

        return cls(state_dir, storage, clock, configured)

    @property
    def _config(self) -> Config:
        return self._configured()

    @cached_property
    def images(self) -> Images:
        """The images that VMs start from."""
        from ci_daemon.providers import open_images  # noqa: PLC0415 - what makes VMs takes long to import

        return open_images(self._state_dir, self._config)

    @cached_property
    def providers(self) -> Providers:
        """The makers of VMs."""
        from ci_daemon.providers import open_providers  # noqa: PLC0415 - as above

        return open_providers(self._state_dir, self._config, self.images, self._clock)

    @property
    def pool(self) -> PoolSettings:
        """The bounds of the VMs of jobs."""
        return self._config.pool

    @property
    def capacity(self) -> Capacity:
        """The caps for all VMs together."""
        from ci_daemon.providers import pool_capacity  # noqa: PLC0415 - as above

        return pool_capacity(self._state_dir, self._config)

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

    def image_bytes(self) -> int:
        """Return the size of all images; 0 for a user without sub-ids, who cannot have any."""
        from actors.vms.host import NoSubIds  # noqa: PLC0415 - as above

        try:
            return sum(each.size for each in self.images.store.list())
        except NoSubIds:
            return 0

    def pull_options(self) -> PullOptions:
        """Return the bounds of a pull of an image that the owner wants."""
        from actors.vms.images import PullOptions  # noqa: PLC0415 - as above

        settings = self._config.images
        return PullOptions(
            max_bytes=settings.max_bytes,
            keep_free=int(self._config.pool.low_disk_gb * _GB),
            timeout=settings.timeout,
            networks=settings.allowed_networks,
        )

    def members(self) -> Iterable[host_operations.HostMember]:
        """Return the members of the engine that makes VMs, if there is one. Raises VmError."""
        if self._config.pool.provider != "incus":
            return ()
        from api.operations import host  # noqa: PLC0415 - few services have an engine
        from ci_daemon.engine import contents_of  # noqa: PLC0415 - as above

        return [
            host.HostMember(
                name=each.member.name,
                state=each.member.state,
                draining=each.member.draining,
                message=each.member.message,
                cpus=each.member.cpus,
                memory_mb=each.member.memory_mb,
                memory_free_mb=each.member.memory_free_mb,
                vms=each.instances,
                snapshots=each.snapshots,
                images=each.images,
            )
            for each in contents_of(self._state_dir, self._config)
        ]

    def examine(self) -> Iterable[host_operations.Finding]:
        """Check the host in a process of its own. Raises Refused if that takes too long.

        The checks open the database and the lock anew, which in the service's own process would release its locks.
        """
        import json  # noqa: PLC0415 - one operation asks
        import subprocess  # noqa: PLC0415 - as above
        import sys  # noqa: PLC0415 - as above

        from api.operations import Refused, host  # noqa: PLC0415 - as above

        command = (sys.executable, "-m", "ci_daemon", "--state-dir", str(self._state_dir), "--json", "doctor")
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_EXAMINATION_SECONDS
            )
            return [host.Finding(**each) for each in json.loads(done.stdout)]
        except (subprocess.TimeoutExpired, ValueError) as error:
            raise Refused(f"`ci-daemon doctor` did not end as it should ({error}): run it on the host") from error

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
        return Forks(self._storage, self.providers, self.images, self._clock, lambda: settings, lambda: None)

    def run_on_fork(self, build: Build, job: Job, run: ForkWork[T], *, opened_by: str, gone: Callable[[], bool]) -> T:
        """Do work on a fork of a job's disk. Raises as the engine of the service does."""
        from actors import EngineBusy, forks  # noqa: PLC0415 - what makes VMs, as above
        from actors.vms import VmError  # noqa: PLC0415 - as above

        try:
            return run.done_on(self._forks, build, job, opened_by=opened_by, gone=gone)
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

        return open_shell(self._storage, self.images, self.providers, self._config, target)


class ServingBox(OwnersBox):
    """The host of a service that runs in this process, with the parts that it has open."""

    def __init__(
        self,
        state_dir: Path,
        storage: Storage,
        clock: Clock,
        config: Callable[[], Config],
        images: Images,
        providers: Providers,
    ) -> None:
        super().__init__(state_dir, storage, clock, config)
        self._open_images = images
        self._open_providers = providers

    @cached_property
    def images(self) -> Images:
        """The images that VMs start from."""
        return self._open_images

    @cached_property
    def providers(self) -> Providers:
        """The makers of VMs."""
        return self._open_providers

    def serves(self) -> bool:
        """Return True: it is this process."""
        return True
