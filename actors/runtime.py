"""The runtime that every actor gets: storage, provider, clock, settings, and the others' addresses."""

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
    """The image store as actors see it: resolves, pulls and removes images."""

    def resolve(self, name: str | None) -> str:
        """Return the stored image for the name in a job; the default image for None."""
        ...

    def stands_in(self, name: str, used: str) -> bool:
        """Tell whether ``used`` is a substitute for the image that a job names."""
        ...

    def missing(self, names: Iterable[str]) -> Mapping[str, str]:
        """Map each of the names whose image is missing to the image that its jobs would get."""
        ...

    def use(self, name: str) -> bool:
        """Record that a job starts from an image, which keeps it for a while; False if it is missing."""
        ...

    def fetch(self, name: str, *, keep_free: int, progress: Callable[[str], None], check: Callable[[], None]) -> None:
        """Pull an image that a job waits for; see `vms.Images.fetch`.

        Raises vms.NoRoom, vms.VmError, and what ``check`` raises.
        """
        ...

    def retire(self, in_use: Collection[str], now: datetime, unused: timedelta | None = None) -> list[str]:
        """Remove images that were pulled for jobs, not used for long, and not in use; return their names."""
        ...

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises vms.ImageNotFound."""
        ...

    def environment(self, name: str) -> Mapping[str, str]:
        """Return the environment variables that an image defines. Raises vms.ImageNotFound."""
        ...

    def sweep(self) -> None:
        """Remove unfinished images of dead processes."""
        ...


@dataclass(slots=True)
class Crew:
    """The current addresses of the long-lived actors. Only the root supervisor writes here."""

    root: Address | None = None
    pool: Address | None = None
    images: Address | None = None
    renders: Address | None = None
    hub: Address | None = None


@dataclass(slots=True)
class Board:
    """The reasons why scheduled jobs wait, for any thread to read without a call.

    Only the lease pool writes ``waiting``; only the image puller writes ``pulls``, each pull's progress by image.
    """

    waiting: Waiting = field(default_factory=Waiting)
    pulls: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the live service: its sections, and the addresses of the API.

    ``api_address`` is where this process reaches the API, ``base_url`` is what goes into ``CI_BUILD_URL``.
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
    """The settings in force, to be read anew at each use. Only the engine writes here."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts that the actors of a running service share. Each part says which actor may change it.

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
        """Return the seconds since a stored moment; 0 if the host's clock was set back to before it."""
        return max(0.0, (self.clock.now() - moment).total_seconds())


def post(address: Address | None, message: object) -> None:
    """Send an event without waiting. A dead actor is ignored; its successor reads the storage."""
    if address is not None:
        with contextlib.suppress(pykka.ActorDeadError):
            address.tell(message)
