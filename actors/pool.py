"""The lease pool: grants VMs to jobs, within the caps (engine.md, "Actors" and "Leases")."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from actors.cache import take_hit
from actors.fairness import Holdings
from actors.messages import (
    CacheHit,
    Demand,
    Drain,
    Granted,
    ImagesAwaited,
    Look,
    MakeRoom,
    QueueTimedOut,
    Recount,
    Refill,
    Released,
    TaskDone,
    TaskFailed,
)
from actors.recollection import held_by_jobs, monotonic, recollect
from actors.runtime import Runtime, post
from actors.standstill import standstill
from actors.supervision import Supervised
from actors.turns import Turn, crowd, next_turn
from actors.waiting import Waiting
from actors.warm import WarmStock, destroy_warm, make_warm
from storage import JobState, Lease, LeaseState, QueuedJob

if TYPE_CHECKING:
    from datetime import datetime

    from actors.settings import PoolSettings
    from actors.timer import Alarm

__all__ = ["LeasePool"]

_DESTROY = "destroy a warm VM"
_WARM_AGAIN = 10.0
_DISK_AGAIN = 5.0
_OVERDUE_AGAIN = 0.5
_OVERDUE_AT_ONCE = 20


class LeasePool(Supervised):
    """Grants VMs to scheduled jobs, fairly and within the caps, and keeps some warm.

    The queue is the storage: jobs in state ``scheduled``. So a waiting job costs neither thread nor memory here.
    The queue is not polled: one alarm is set to the next instant at which something in it is due.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.timer, runtime.crew.root)
        self._runtime = runtime
        self._begun_at = runtime.clock.now()
        self._holdings = Holdings()
        self._warm = WarmStock()
        self._drained = False
        self._draining = False
        self._room_asked_at = float("-inf")
        self._alarm: Alarm | None = None

    @property
    def _settings(self) -> PoolSettings:
        return self._runtime.settings.pool

    def begin(self) -> None:
        """Take over from an earlier pool: leases that jobs hold, warm VMs that are alive, recent usage."""
        self._holdings = recollect(self._runtime.storage, self._runtime.clock)
        for lease in self._runtime.storage.leases.live():
            if lease.build_id is not None:
                continue
            if lease.job_id is not None:
                self._tell_again(lease.job_id, lease)
            elif lease.state is LeaseState.WARM and self._runtime.provider.alive(lease.uuid):
                self._warm.adopt(lease)
            else:
                self.work(_DESTROY, partial(destroy_warm, self._runtime, lease))
        self._serve()

    def teardown(self) -> None:
        """Cancel the alarm."""
        if self._alarm is not None:
            self._alarm.cancel()

    def handle(self, message: object) -> None:
        """Grant VMs, take them back, refill the warm ones."""
        match message:
            case Demand():
                self._serve()
            case Look():
                if self._is_drained() is not self._drained or self._warm.unwanted(self._wanted()):
                    self._serve()
            case Released(lease_id):
                self._holdings.let_go(lease_id, self._runtime.clock.monotonic())
                self._warm.remove(lease_id)
                self._serve()
            case Recount():
                self._recount()
                self._serve()
            case Refill():
                self._warm.wake()
                self._serve()
            case Drain():
                self._draining = True
                self._serve()
            case TaskDone() | TaskFailed():
                self._after_task(message)

    def _after_task(self, message: TaskDone | TaskFailed) -> None:
        match message:
            case TaskDone(_, Lease() as lease):
                self._runtime.storage.leases.warmed(lease.id)
                self._warm.made(lease)
                self._make_way()
                post(self.actor_ref, Demand())
            case TaskFailed(task, error) if task == _DESTROY:
                self.log.warning("cannot destroy a warm VM, the reaper will: %s", error)
            case TaskFailed(image, error):
                if self._warm.failed(image, str(error)):
                    self.log.warning("cannot make a warm VM: %s", error)
                self._runtime.timer.tell_after(_WARM_AGAIN, self.actor_ref, Refill())

    def _serve(self) -> None:
        """Do what is due: end back-offs, grant, time out, refill. Then set the alarm for what is next."""
        soonest = self._runtime.storage.queue.wake()
        obstacle = self._obstacle()
        if obstacle is None:
            self._await_images()
        waiting = Waiting(everyone=obstacle) if obstacle else self._grant()
        self._runtime.board.waiting = waiting
        if self._draining:
            return
        due = [soonest, self._end_overdue(waiting)]
        if obstacle is None:
            self._refill()
        elif not self._drained:
            due.append(self._runtime.clock.now() + timedelta(seconds=_DISK_AGAIN))
        self._set_alarm(min((instant for instant in due if instant is not None), default=None))

    def _set_alarm(self, due: datetime | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if due is not None:
            seconds = max(0.0, (due - self._runtime.clock.now()).total_seconds())
            self._alarm = self._runtime.timer.tell_after(seconds, self.actor_ref, Demand())

    def _obstacle(self) -> str | None:
        """Return what keeps every job from a VM, or None; ask root to make room if the disk is short."""
        self._drained = self._is_drained()
        if self._draining:
            return "the service is draining"
        still = standstill(self._runtime.storage, self._settings.low_disk_gb)
        now = self._runtime.clock.monotonic()
        if still is not None and still.lacking and now - self._room_asked_at >= _DISK_AGAIN:
            self._room_asked_at = now
            post(self._runtime.crew.root, MakeRoom(still.lacking))
        return None if still is None else still.reason

    def _is_drained(self) -> bool:
        return self._runtime.storage.switches.drained_since() is not None

    def _await_images(self) -> None:
        """Let jobs whose image is missing wait for the image, outside the queue, so that others get VMs."""
        queue = self._runtime.storage.queue
        if not (named := queue.images()):
            return
        for name, image in self._runtime.images.missing(named).items():
            if queue.await_image(name, image):
                post(self._runtime.crew.images, ImagesAwaited())

    def _grant(self) -> Waiting:
        """Grant VMs in fair order until the next job does not fit; return what keeps the jobs waiting."""
        queue, now = self._runtime.storage.queue, self._runtime.clock.monotonic()
        if (crowded := crowd(self._holdings, self._settings.host())) is not None:
            return crowded
        heads = {job.organization_id: job for job in queue.heads()}
        while (turn := self._turn(heads, now)).job is not None:
            self._grant_to(turn.job)
            organization_id = turn.job.organization_id
            following = queue.head(organization_id)
            if following is None:
                del heads[organization_id]
            else:
                heads[organization_id] = following
        return turn.waiting

    def _turn(self, heads: dict[int, QueuedJob], now: float) -> Turn:
        host, organization = self._settings.host(), self._settings.organization()
        return next_turn(heads.values(), self._holdings, host, organization, now)

    def _grant_to(self, job: QueuedJob) -> None:
        runtime = self._runtime
        if take_hit(runtime, job.job_id):  # another build has stored the result meanwhile
            post(runtime.crew.root, CacheHit(job.build_id, job.job_id))
            return
        image = runtime.images.resolve(job.image)
        if not runtime.images.use(image) and job.image is not None and job.parent_snapshot_job_id is None:
            self._await_images()  # the image was removed after the queue was checked
            return
        warm = self._warm.fitting(job, image)
        lease = runtime.storage.leases.assign(
            job.job_id,
            provider=runtime.provider.name,
            image=image,
            shape=job.shape,
            network=job.network,
            warm_lease_id=warm.id if warm else None,
            lease_uuid=warm.uuid if warm else str(uuid.uuid4()),
        )
        if lease is None:  # the job was canceled, or the owner ended the warm VM
            live = runtime.storage.leases.live()
            self._warm.retain({each.id for each in live if each.state is LeaseState.WARM})
            return
        runtime.observations.granted(runtime.seconds_since(job.scheduled_at))
        self._warm.remove(lease.id)
        self._hold(lease)
        self._make_way()
        post(runtime.crew.root, Granted(job.build_id, lease))

    def _end_overdue(self, waiting: Waiting) -> datetime | None:
        """Time out jobs that waited too long; return when the next may be due. Downtime is excluded."""
        timeout, queue, now = self._settings.queue_timeout, self._runtime.storage.queue, self._runtime.clock.now()
        since = queue.oldest() if timeout else None
        if since is None:
            return None
        patience = timedelta(seconds=timeout)
        due = max(since, self._begun_at) + patience
        if due > now:
            return due
        for job in queue.overdue(now - patience, _OVERDUE_AT_ONCE):
            why = f"it got no VM within {timeout} s; at the end: {waiting.reason(job.job_id, job.organization_id)}"
            post(self._runtime.crew.root, QueueTimedOut(job.build_id, job.job_id, why))
        return now + timedelta(seconds=_OVERDUE_AGAIN)

    def _hold(self, lease: Lease) -> None:
        if lease.organization_id is not None:
            since = monotonic(self._runtime.clock, lease.started_at)
            self._holdings.hold(lease.id, lease.organization_id, lease.shape, since)

    def _recount(self) -> None:
        """Resync the held leases with the storage: messages to a pool that died are lost."""
        leases = held_by_jobs(self._runtime.storage)
        for lease_id in self._holdings.leases - leases.keys():
            self._holdings.let_go(lease_id, self._runtime.clock.monotonic())
        for lease_id in leases.keys() - self._holdings.leases:
            self._hold(leases[lease_id])

    def _tell_again(self, job_id: int, lease: Lease) -> None:
        """Repeat a grant whose message may have been lost; a duplicate does no harm."""
        job = self._runtime.storage.jobs.get(job_id)
        if job is not None and job.state is JobState.ASSIGNED:
            post(self._runtime.crew.root, Granted(job.build_id, lease))

    def _refill(self) -> None:
        """Destroy unwanted warm VMs, and make missing ones, one per core at a time, if the host has room."""
        wanted = self._wanted()
        for lease in self._warm.unwanted(wanted):
            self._warm.remove(lease.id)
            self.work(_DESTROY, partial(destroy_warm, self._runtime, lease))
        while self._warm.making < (os.cpu_count() or 1) and (image := self._warm.missing(wanted)) is not None:
            if self._settings.host().excess(self._holdings.load(), self._warm.count + 1):
                return
            self._warm.begun(image)
            self.work(image, partial(make_warm, self._runtime, image))

    def _wanted(self) -> Counter[str]:
        """Return how many warm VMs are wanted of each image; the default image may change at any time."""
        resolve = self._runtime.images.resolve
        wanted = Counter({resolve(None): self._settings.warm})
        wanted.update({resolve(name): count for name, count in self._settings.warm_images.items()})
        return wanted

    def _make_way(self) -> None:
        """Destroy the warm VMs that exceed the host's caps beside the jobs' VMs. No job waits for that."""
        for lease in self._warm.give_up(self._settings.host().excess(self._holdings.load(), self._warm.count)):
            self.work(_DESTROY, partial(destroy_warm, self._runtime, lease))
