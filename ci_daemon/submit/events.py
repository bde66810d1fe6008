"""Events in the life of a build that is followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_daemon.submit.records import BuildRecord, JobRecord

__all__ = ["Begun", "BuildChanged", "Event", "JobChanged", "Line"]


@dataclass(frozen=True, slots=True)
class Begun:
    """Following begins; these are all the jobs there will be, in DAG creation order."""

    build: BuildRecord
    jobs: tuple[JobRecord, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a job's log, without its end."""

    job: JobRecord
    text: str


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job came into another state."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class BuildChanged:
    """The build came into another state."""

    build: BuildRecord


Event = Begun | Line | JobChanged | BuildChanged
