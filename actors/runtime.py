"""What every actor of the live service is given: the storage, the provider, the clock, and the others' addresses."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from actors.drops import Drops
from actors.host_disk import HostDisk
from actors.ir import Limits
from actors.observations import Observations
from actors.render.settings import RenderSettings
from actors.retention import RetentionSettings
from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings
from actors.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime, timedelta
    from pathlib import Path

    from actors.timer import Timer
    from actors.vms import Provider
    from storage import Clock, Storage

__all__ = ["Address", "Board", "Configuration", "Crew", "Images", "Runtime", "Settings", "post"]

Address = pykka.ActorRef[Any]


class Images(Protocol):
    """Says which image a job starts from and what its maker gave it, pulls it, and keeps the store tidy."""

    def resolve(self, name: str | None) -> str:
        """Return the image of the store that a job's image stands for; of no image, the default."""
        ...

    def stands_in(self, name: str, used: str) -> bool:
        """Tell whether ``used`` is another image than the one that a job names."""
        ...

    def missing(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return the images that jobs of these names get and that are not there, by name."""
        ...

    def use(self, name: str) -> bool:
        """Note that a job is to start from an image, which then stays for a while; False where it is not there."""
        ...

    def fetch(self, name: str, *, keep_free: int, progress: Callable[[str], None], check: Callable[[], None]) -> None:
        """Pull an image that a job waits for; see `vms.Images.fetch`.

        Raises vms.NoRoom, vms.VmError, and what ``check`` raises.
        """
        ...

    def retire(self, in_use: Collection[str], now: datetime, unused: timedelta | None = None) -> list[str]:
        """Remove images that were pulled for jobs and not used for long, but those in use; return their names."""
        ...

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises vms.ImageNotFound."""
        ...

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the variables that an image's maker wants every program in it to have. Raises vms.ImageNotFound."""
        ...

    def sweep(self) -> None:
        """Remove what dead processes have left of images that they were making."""
        ...


@dataclass(slots=True)
class Crew:
    """Where the long-lived actors are to be found right now. The root supervisor alone writes here."""

    root: Address | None = None
    pool: Address | None = None
    images: Address | None = None
    renders: Address | None = None
    hub: Address | None = None


@dataclass(slots=True)
class Board:
    """Why scheduled jobs wait, for everyone to read without asking.

    The lease pool alone writes ``waiting``, the image puller alone ``pulls``: how far each is, by image.
    """

    waiting: Waiting = field(default_factory=Waiting)
    pulls: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the live service: its sections, where jobs are told that the API is, and where it is.

    ``api_address`` is where this process itself reaches the API, ``base_url`` what goes into ``CI_BUILD_URL``.
    """

    pool: PoolSettings = field(default_factory=PoolSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    render: RenderSettings = field(default_factory=RenderSettings)
    limits: Limits = field(default_factory=Limits)
    base_url: str = "http://127.0.0.1:8800"
    api_address: tuple[str, int] = ("127.0.0.1", 8800)


@dataclass(slots=True)
class Configuration:
    """The settings in force, which whoever goes by them reads each time. The engine alone writes here."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """One of these for a running service, shared by its actors and changed by none but as each part says.

    ``give_up`` is set when restarting actors does not help: the process then ends and systemd starts it again.
    """

    storage: Storage
    provider: Provider
    images: Images
    clock: Clock
    timer: Timer
    configuration: Configuration
    give_up: threading.Event = field(default_factory=threading.Event)
    crew: Crew = field(default_factory=Crew)
    board: Board = field(default_factory=Board)
    drops: Drops = field(default_factory=Drops)
    observations: Observations = field(default_factory=Observations)
    host_disk: HostDisk = field(default_factory=HostDisk)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.configuration.settings

    def seconds_since(self, moment: datetime) -> float:
        """Return how long ago a stored moment was; 0 where the host's clock was set back behind it."""
        return max(0.0, (self.clock.now() - moment).total_seconds())


def post(address: Address | None, message: object) -> None:
    """Send an event that nobody waits for. Whoever is gone needs no news: its successor reads the storage."""
    if address is not None:
        with contextlib.suppress(pykka.ActorDeadError):
            address.tell(message)
