"""The reasons why jobs wait: the host, capacity, images, time-outs (engine.md, "The lease pool")."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from actors.messages import QueueTimedOut
from actors.vms import public_name
from storage import JobState, immutable, why_no_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from actors.addresses import Address
    from actors.messages import RootMessage
    from actors.scheduling.capacity import Shortage
    from storage import Clock, Job, Storage


_GB = 2**30

_GOOD_SECONDS = 1.0
"""Seconds for which the lease pool, which asks often, believes that the folders take files."""
_SHORT = 0.05
"""The host's memory is short while less than this share of it is available."""
_PAUSE_SECONDS = 0.5
_BATCH = 20


@immutable
class AdmissionBlock:
    """The reason why nothing starts, as a phrase; freeing ``lacking`` bytes of disk would end it."""

    reason: str
    lacking: int = 0


def admission_block(
    storage: Storage, low_disk_gb: float, look: Callable[[Path], str | None] | None = None
) -> AdmissionBlock | None:
    """Return why nothing may start, or None if jobs may. Running jobs go on either way.

    ``look`` tells why the folders in the state directory take no files: `why_no_files`, unless it is given.
    """
    if storage.switches.drained_since() is not None:
        return AdmissionBlock("the owner has drained this host")
    free, low = shutil.disk_usage(storage.directory).free, int(low_disk_gb * _GB)
    if free >= low:
        hindrance = (look or why_no_files)(storage.directory)
        return None if hindrance is None else AdmissionBlock(f"{hindrance}: until then nothing starts")
    reason = f"the host's disk has {free / _GB:.1f} GB left, below {low_disk_gb:g} GB nothing starts"
    return AdmissionBlock(reason, low - free)


class Admission:
    """Decides for the lease pool whether any job may start, and asks for room on a nearly full disk.

    For the pool's thread only.
    """

    def __init__(self, storage: Storage, clock: Clock, ask_for_room: Callable[[int], None], pause: float) -> None:
        """Ask for missing bytes of disk by ``ask_for_room``, at most every ``pause`` seconds."""
        self._storage = storage
        self._clock = clock
        self._ask_for_room = ask_for_room
        self._pause = pause
        self._asked_at = float("-inf")
        self._good_until = float("-inf")
        self.draining = False
        """True while the service is about to stop."""
        self.drained = False
        """True if the owner had drained the host at the last `check`."""

    @property
    def changed(self) -> bool:
        """True if the owner has drained or resumed the host since the last `check`."""
        return self._is_drained() is not self.drained

    def check(self, low_disk_gb: float) -> str | None:
        """Return the reason why nothing may start, or None; ask for room if the disk is short."""
        self.drained = self._is_drained()
        if self.draining:
            return "the service is draining"
        block = admission_block(self._storage, low_disk_gb, self._look)
        now = self._clock.monotonic()
        if block is not None and block.lacking and now - self._asked_at >= self._pause:
            self._asked_at = now
            self._ask_for_room(block.lacking)
        return None if block is None else block.reason

    def _look(self, directory: Path) -> str | None:
        now = self._clock.monotonic()
        if now < self._good_until:
            return None
        hindrance = why_no_files(directory)
        if hindrance is None:
            self._good_until = now + _GOOD_SECONDS
        return hindrance

    def _is_drained(self) -> bool:
        return self._storage.switches.drained_since() is not None


def memory_is_short(meminfo: Path = Path("/proc/meminfo")) -> bool:
    """Tell whether less than a twentieth of the host's memory is available."""
    facts = meminfo.read_bytes()  # the lease pool asks several times a job
    available, total = (int(facts.partition(name)[2].split(None, 1)[0]) for name in (b"MemAvailable:", b"MemTotal:"))
    return available < total * _SHORT


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
            case JobState.SCHEDULED if job.awaits_lock:
                return awaits_lock(job)
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
    return f'waiting for the image "{public_name(image)}"{f": {progress}" if progress else ""}'


def awaits_lock(job: Job) -> str:
    """Return the reason of a job that waits for its lock."""
    most = "1 job has" if job.lock_limit == 1 else f"{job.lock_limit} jobs have"
    return f'waiting for the lock "{job.lock}", which {most} at a time'


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


class QueueTimeout:
    """Times out jobs that wait for a VM too long. Downtime is excluded. For the pool's thread only."""

    def __init__(self, storage: Storage, clock: Clock, root: Address[RootMessage]) -> None:
        self._storage = storage
        self._clock = clock
        self._root = root
        self._began = clock.monotonic()

    def end_overdue(self, seconds: int, waiting: Waiting) -> float | None:
        """Time out the jobs that wait for longer, and say why; return in how many seconds to look again.

        ``seconds`` is 0 for no limit.
        """
        queue, timeline = self._storage.queue, self._storage.timeline
        since = queue.oldest() if seconds else None
        if since is None:
            return None
        waited = min(timeline.seconds_since(since), self._clock.monotonic() - self._began)
        if waited < seconds:
            return seconds - waited
        for job in queue.overdue(timeline.ago(timedelta(seconds=seconds)), _BATCH):
            why = f"no VM within {seconds} s: {waiting.reason(job.job_id, job.organization_id)}"
            self._root.post(QueueTimedOut(job.build_id, job.job_id, why))
        return _PAUSE_SECONDS
