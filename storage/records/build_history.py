"""Past builds, as lists and plots of pipelines show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.builds import Build, BuildState

__all__ = ["BuildPeople", "FlakyStep", "ListedBuild", "PastBuild", "SlowStep"]


@dataclass(frozen=True, slots=True)
class PastBuild:
    """A build's number, state and times; ``amount_cents`` is the price of its VMs."""

    pipeline_id: int
    number: int
    state: BuildState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    amount_cents: int

    @property
    def seconds(self) -> float | None:
        """The seconds that it ran; None if it has not started or not ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def waited(self) -> float | None:
        """The seconds that it waited for its first VM; None if it has not started."""
        return None if self.started_at is None else (self.started_at - self.created_at).total_seconds()


@dataclass(frozen=True, slots=True)
class BuildPeople:
    """The people of a build: the commit's author, who pushed it, and who began the build here.

    ``author`` is the commit's own claim, which nobody has proven. ``pusher`` is a login at the source host, ``creator``
    the name or address of an account.
    """

    author: str | None = None
    pusher: str | None = None
    creator: str | None = None

    @property
    def first(self) -> str:
        """The one to name in a list; empty if nobody is known."""
        return self.author or self.pusher or self.creator or ""


@dataclass(frozen=True, slots=True)
class ListedBuild:
    """A build in a pipeline's list, with its people."""

    build: Build
    people: BuildPeople


@dataclass(frozen=True, slots=True)
class SlowStep:
    """A step with the mean time that its jobs ran, in seconds, and how many they were."""

    name: str
    mean_seconds: float
    runs: int


@dataclass(frozen=True, slots=True)
class FlakyStep:
    """A step whose jobs failed and passed on one commit; ``commits`` counts those commits."""

    name: str
    commits: int
