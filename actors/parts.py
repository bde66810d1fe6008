"""The parts that the composition gives to every actor, as one object; it says of each who changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from actors.addresses import Addresses
from actors.cleanup.host_disk import HostDisk
from actors.log_watchers import LogWatchers
from actors.metrics import EngineMetrics
from actors.render.yaml_files import JobFiles
from actors.scheduling.cpu_shares import CpuShares
from actors.scheduling.parked_vms import ParkedConnections
from actors.scheduling.pending_reason import PendingReasons
from actors.scheduling.provider_choice import ProviderChoice
from actors.settings import Timings
from actors.timer import Timer

if TYPE_CHECKING:
    from actors.settings import LiveSettings
    from actors.test_reports.quarantine import Excuse
    from actors.vms import Images, Providers
    from storage import Build, Clock, Job, Lease, Storage


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of all actors."""

    storage: Storage
    clock: Clock
    live_settings: LiveSettings
    metrics: EngineMetrics = field(default_factory=EngineMetrics)
    timings: Timings = field(default_factory=Timings)
    addresses: Addresses = field(default_factory=Addresses)
    watchers: LogWatchers = field(default_factory=LogWatchers)

    def excuse(self, build: Build, job: Job, lease: Lease, exit_code: int) -> Excuse | None:
        """Return whether quarantine of tests excuses a job that failed; None if none concerns it."""
        from actors.test_reports.quarantine import excuse  # noqa: PLC0415 - few pipelines have tests in quarantine

        return excuse(self.storage, build, job, lease, exit_code, self.clock.now())

    @cached_property
    def timer(self) -> Timer:
        """The timer of all actors."""
        return Timer(self.clock)


@dataclass(frozen=True, kw_only=True)
class VmParts(Parts):
    """The parts of the actors that have VMs."""

    providers: Providers
    images: Images
    reasons: PendingReasons = field(default_factory=PendingReasons)
    connections: ParkedConnections = field(default_factory=ParkedConnections)
    host_disk: HostDisk = field(default_factory=HostDisk)
    job_files: JobFiles = field(default_factory=JobFiles)

    @cached_property
    def cpu_shares(self) -> CpuShares:
        """The CPU of the host, divided among organizations."""
        return CpuShares(self.clock)

    @cached_property
    def choice(self) -> ProviderChoice:
        """The choice of providers for jobs and renders."""
        return ProviderChoice(self.storage, self.live_settings)
