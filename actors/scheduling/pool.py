"""The lease pool: grants VMs to jobs, within the caps (engine.md, "The lease pool")."""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING, assert_never

from actors.messages import (
    CacheHit,
    Drain,
    Granted,
    ImagesAwaited,
    LeasePoolMessage,
    MakeRoom,
    PollStorage,
    Refill,
    Released,
    Reschedule,
    ResyncLeases,
    TakeParked,
)
from actors.scheduling.parked_vms import DestroyVm, ParkVm, VmParked
from actors.scheduling.parking import Parking
from actors.scheduling.pending_reason import Admission, QueueTimeout, Waiting, memory_is_short
from actors.scheduling.scheduler import (
    Decision,
    FairShare,
    host_full,
    leases_of_jobs,
    load_fair_share,
    monotonic,
    schedule_next,
)
from actors.supervision import Supervised
from actors.vms import private_name, registry_of
from storage import JobState, Lease, QueuedJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.builds.attempt.disk_cache import DiskCache
    from actors.parts import VmParts
    from actors.scheduling.capacity import Capacity
    from actors.settings import PoolSettings
    from actors.timer import Alarm

_FULL_SECONDS = 0.1
"""While the host is full, the queue is looked at no more often: what joins it can get no VM yet."""


class LeasePool(Supervised[LeasePoolMessage | VmParked, ParkVm | DestroyVm]):
    """Grants VMs to scheduled jobs, fairly and within the caps, and keeps some parked.

    The queue is the storage: jobs in state ``scheduled``. So a waiting job costs neither thread nor memory here.
    The queue is not polled: one alarm is set to the next instant at which something in it is due.
    """

    def __init__(
        self,
        parts: VmParts,
        *,
        cache: DiskCache,
        cores: int = os.cpu_count() or 1,
        memory_is_short: Callable[[], bool] = memory_is_short,
    ) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._root = parts.addresses.root
        self._image_puller = parts.addresses.images
        self._storage = parts.storage
        self._providers = parts.providers
        self._choice = parts.choice
        self._images = parts.images
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._cache = cache
        self._reasons = parts.reasons
        self._cpu_shares = parts.cpu_shares
        self._metrics = parts.metrics
        self._timings = parts.timings
        self._queue_timeout = QueueTimeout(parts.storage, parts.clock, parts.addresses.root)
        self._fair_share = FairShare()
        self._parking = Parking(parts, cores=cores, memory_is_short=memory_is_short, work=self.work)
        self._admission = Admission(
            parts.storage, parts.clock, lambda lacking: self._root.post(MakeRoom(lacking)), parts.timings.disk
        )
        self._alarm: Alarm | None = None
        self._full_until = float("-inf")

    @property
    def _settings(self) -> PoolSettings:
        return self._live_settings.now.pool

    @property
    def _host(self) -> Capacity:
        """The caps for all VMs together, by the size of the hosts of the default provider."""
        return self._settings.host(self._providers.named(self._choice.host).size())

    def begin(self) -> None:
        """Take over from an earlier pool: leases of jobs, parked VMs, recent usage."""
        self._fair_share = load_fair_share(self._storage, self._clock)
        for lease in self._storage.leases.live():
            if lease.build_id is not None:
                continue
            if lease.job_id is not None:
                self._repeat_grant(lease.job_id, lease)
            elif not (lease.is_preview or lease.is_fork):
                self._parking.take_over(lease)
        self._serve()

    def teardown(self) -> None:
        """Cancel the alarm."""
        if self._alarm is not None:
            self._alarm.cancel()

    def handle(self, message: LeasePoolMessage | VmParked) -> None:
        """Grant VMs, take them back, refill the parked ones."""
        match message:
            case Reschedule():
                self._look_again()
            case PollStorage():
                self._poll()
            case Released(lease_id):
                self._fair_share.release(lease_id, self._clock.monotonic())
                self._parking.forget(lease_id)
                self._serve()
            case ResyncLeases():
                self._resync()
                self._serve()
            case Refill():
                self._parking.wake()
                self._serve()
            case Drain():
                self._admission.draining = True
                self._serve()
            case TakeParked():
                self._give_away(message)
                self.address.post(Reschedule())
            case VmParked(lease, member):
                self._parking.parked(lease, member)
                self.address.post(Reschedule())
            case _:
                assert_never(message)

    def _poll(self) -> None:
        """Look at what changes without a message: the drain, other processes' jobs, memory, ages of VMs."""
        self._cpu_shares.settle()
        queue = self._storage.queue
        if self._admission.changed or queue.oldest() is not None or queue.give_locks():
            self._serve()
        else:
            self._parking.destroy_excess()

    def on_task_error(self, task: ParkVm | DestroyVm, error: Exception) -> None:
        """Try again to park a VM later; leave one that cannot be destroyed to the reaper."""
        match task:
            case DestroyVm():
                self.log.warning("cannot destroy a parked VM, the reaper will: %s", error)
            case ParkVm():
                if self._parking.failed(task.lease, str(error)):
                    self.log.warning("cannot park a VM: %s", error)
                self._timer.tell_after(self._timings.parked, self.address, Refill())
            case _:
                assert_never(task)

    def _look_again(self) -> None:
        """Serve the queue: at once, or soon if the host was full. Whatever makes room serves it itself."""
        now = self._clock.monotonic()
        if now >= self._full_until:
            self._serve()
        elif self._alarm is None or not now < self._alarm.due <= self._full_until:
            self._set_alarm(self._full_until - now)

    def _serve(self) -> None:
        """Do what is due: end back-offs, give locks, grant, time out, refill. Then set the alarm."""
        self._storage.clock_steps.follow()
        soonest = self._storage.queue.wake()
        self._storage.queue.give_locks()
        blocked_by = self._admission.check(self._settings.low_disk_gb)
        if blocked_by is None:
            self._await_images()
        waiting = Waiting(admission=blocked_by) if blocked_by else self._grant()
        self._reasons.waiting = waiting
        if self._admission.draining:
            return
        due = [
            None if soonest is None else max(0.0, (soonest - self._clock.now()).total_seconds()),
            self._queue_timeout.end_overdue(self._settings.queue_timeout, waiting),
        ]
        if blocked_by is None:
            due.append(self._parking.refill())
        elif not self._admission.drained:
            due.append(self._timings.disk)
        self._set_alarm(min((seconds for seconds in due if seconds is not None), default=None))

    def _set_alarm(self, seconds: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if seconds is not None:
            self._alarm = self._timer.tell_after(seconds, self.address, Reschedule())

    def _await_images(self) -> None:
        """Let jobs whose image is missing wait for the image, outside the queue, so that others get VMs."""
        queue = self._storage.queue
        if not (named := queue.images()):
            return
        for name, image in self._images.missing(named).items():
            host = registry_of(image) or ""
            awaited = queue.await_image(name, image, host)
            for organization_id, login in self._storage.registry_logins.at(host):
                private = private_name(login, image)
                if not self._images.has(private):
                    awaited |= queue.await_image(name, private, host, organization_id)
            if awaited:
                self._image_puller.post(ImagesAwaited())

    def _grant(self) -> Waiting:
        """Grant VMs in fair order until the next job does not fit; return what keeps the jobs waiting."""
        queue, now = self._storage.queue, self._clock.monotonic()
        if (full_host := host_full(self._fair_share, self._host)) is not None:
            self._full_until = now + _FULL_SECONDS
            return full_host
        self._full_until = float("-inf")
        heads = {job.organization_id: job for job in queue.heads()}
        while (decision := self._schedule_next(heads, now)).job is not None:
            self._grant_to(decision.job)
            organization_id = decision.job.organization_id
            following = queue.head(organization_id)
            if following is None:
                del heads[organization_id]
            else:
                heads[organization_id] = following
        return decision.waiting

    def _schedule_next(self, heads: dict[int, QueuedJob], now: float) -> Decision:
        return schedule_next(heads.values(), self._fair_share, self._host, self._settings.organization(), now)

    def _grant_to(self, job: QueuedJob) -> None:
        if self._cache.take_hit(job.job_id):  # another build has stored the result meanwhile
            self._root.post(CacheHit(job.build_id, job.job_id))
            return
        logins = partial(self._storage.registry_logins.usable, job.organization_id, job.build_id)
        image = self._images.resolve(job.image, logins)
        if not self._images.use(image) and job.image is not None and job.parent_snapshot_job_id is None:
            self._await_images()  # the image was removed after the queue was checked
            return
        of_services = self._storage.queue.images_of_services(job.job_id)
        if missing := list(self._images.missing(of_services, logins).values()):
            self._storage.queue.await_image_of_service(job.job_id, missing[0])  # then the next one
            self._image_puller.post(ImagesAwaited())
            return
        provider = self._choice.of_job(job.job_id, job.build_id, image)
        parked = self._parking.next(provider, self._choice.member_of_disk(job.job_id))
        lease = self._storage.leases.assign(
            job.job_id,
            provider=provider,
            image=image,
            shape=job.shape,
            network=job.network,
            parked_lease_id=parked.id if parked else None,
            lease_uuid=parked.uuid if parked else str(uuid.uuid4()),
        )
        if lease is None:  # the job was canceled, or the owner ended the parked VM
            self._parking.forget_ended()
            return
        self._metrics.granted(self._storage.timeline.seconds_since(job.scheduled_at))
        self._parking.taken(lease)
        self._note_grant(lease)
        self._root.post(Granted(job.build_id, lease))

    def _give_away(self, wanted: TakeParked) -> None:
        parked = self._parking.next(wanted.provider, wanted.member)
        lease = None if parked is None else wanted.claim(parked.id)
        if lease is not None:
            self._parking.taken(lease)
            wanted.taken.append(lease)

    def _note_grant(self, lease: Lease) -> None:
        if lease.organization_id is not None:
            since = monotonic(self._storage, self._clock, lease.started_at)
            self._fair_share.grant(lease.id, lease.organization_id, lease.shape, since)

    def _resync(self) -> None:
        """Resync the leases in use with the storage: messages to a pool that died are lost."""
        leases = leases_of_jobs(self._storage)
        for lease_id in self._fair_share.leases - leases.keys():
            self._fair_share.release(lease_id, self._clock.monotonic())
        for lease_id in leases.keys() - self._fair_share.leases:
            self._note_grant(leases[lease_id])

    def _repeat_grant(self, job_id: int, lease: Lease) -> None:
        """Repeat a grant whose message may have been lost; a duplicate does no harm."""
        job = self._storage.jobs.get(job_id)
        if job is not None and job.state is JobState.ASSIGNED:
            self._root.post(Granted(job.build_id, lease))
