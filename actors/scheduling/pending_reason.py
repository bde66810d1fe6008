"""The ``pending_reason`` of a job: why it has no VM. No I/O (engine.md, "The lease pool")."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from storage import JobState, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from actors.scheduling.capacity import Shortage
    from storage import Job


@immutable
class NoRoom:
    """The next job, which does not fit, and what is short; ``job_id`` is None if no job at all would fit."""

    job_id: int | None
    shortage: Shortage


@immutable
class Waiting:
    """The obstacles that the pool found when it last served the queue.

    ``admission`` is the reason of an admission block. ``host`` is the next job, for which the host has no room; all
    others wait behind it. ``organizations`` are those whose next job exceeds their caps.
    """

    admission: str | None = None
    host: NoRoom | None = None
    organizations: Mapping[int, NoRoom] = field(default_factory=dict)

    def reason(self, job_id: int, organization_id: int) -> str:
        """Return why this job waits."""
        if self.admission is not None:
            return f"waiting for a VM: {self.admission}"
        own = self.organizations.get(organization_id)
        if own is not None:
            return f"waiting for a VM: {_of_organization(own, job_id)}"
        if self.host is not None:
            return f"waiting for a VM: {_of_host(self.host, job_id)}"
        return "waiting for a VM"


@dataclass(slots=True)
class PendingReasons:
    """The reasons why scheduled jobs wait, for any thread to read without a call.

    Only the lease pool writes ``waiting``; only the image puller writes ``pulls``, each pull's progress by image.
    """

    waiting: Waiting = field(default_factory=Waiting)
    pulls: dict[str, str] = field(default_factory=dict)

    def of(self, job: Job, now: datetime) -> str | None:
        """Return why a job waits; None if it does not."""
        match job.state:
            case JobState.PENDING:
                return "waiting for the jobs that it depends on"
            case JobState.SCHEDULED if job.awaited_image is not None:
                return awaits_image(job.awaited_image, self.pulls.get(job.awaited_image))
            case JobState.SCHEDULED:
                return back_off(job, now) or self.waiting.reason(job.id, job.organization_id)
            case JobState.ASSIGNED | JobState.RUNNING | JobState.CANCELING | JobState.TIMING_OUT:
                return None
            case JobState.PASSED | JobState.FAILED | JobState.SKIPPED | JobState.CANCELED | JobState.TIMED_OUT:
                return None
            case _:
                assert_never(job.state)


def awaits_image(image: str, progress: str | None = None) -> str:
    """Return the reason of a job that waits for its image, with the progress of the pull."""
    return f'waiting for the image "{image}"{f": {progress}" if progress else ""}'


def back_off(job: Job, now: datetime) -> str | None:
    """Return the reason of a job that backs off before its next attempt; None if it does not."""
    if job.not_before is None:
        return None
    seconds = max(1, math.ceil((job.not_before - now).total_seconds()))
    return f"waiting {seconds} s before attempt {job.attempt + 1}"


def _of_host(no_room: NoRoom, job_id: int) -> str:
    lack = no_room.shortage
    if lack.total:
        return f"host is full ({lack.taken} of {lack.cap})"
    return f"{lack} are taken, {_who(no_room, job_id)} {lack.wanted}"


def _of_organization(no_room: NoRoom, job_id: int) -> str:
    lack = no_room.shortage
    if lack.total:
        return f"its organization has all {lack.cap} VMs that it may have"
    return f"its organization has {lack}, {_who(no_room, job_id)} {lack.wanted}"


def _who(no_room: NoRoom, job_id: int) -> str:
    return "it needs" if no_room.job_id == job_id else "the job before it needs"
