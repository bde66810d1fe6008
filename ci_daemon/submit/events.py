"""Events of a followed build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_daemon.submit.records import BuildRecord, JobRecord

__all__ = ["Begun", "BuildChanged", "Event", "JobChanged", "Line"]


@dataclass(frozen=True, slots=True)
class Begun:
    """The first event; ``jobs`` are all jobs of the build, in DAG creation order."""

    build: BuildRecord
    jobs: tuple[JobRecord, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a job's log, without its line end."""

    job: JobRecord
    text: str


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job's state, or the reason why it is pending, has changed."""

    job: JobRecord


@dataclass(frozen=True, slots=True)
class BuildChanged:
    """The build's state has changed."""

    build: BuildRecord


Event = Begun | Line | JobChanged | BuildChanged
