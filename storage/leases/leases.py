"""Leases: a row for each VM, from before its creation to its end.

See engine.md, "Leases".
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING

import peewee

from storage.data_classes import immutable
from storage.database.clock import SECOND, boot_id, to_micros
from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot, written
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import LeaseRow
from storage.records.jobs import ImageDigests, JobState, Shape
from storage.records.leases import Lease, LeaseState

if TYPE_CHECKING:
    from storage.billing.usage import Meter
    from storage.builds.jobs import Attempts, Jobs
    from storage.database.connection import Database


_LEASE = Columns.of(Lease, LeaseRow, shape=Columns.of(Shape, LeaseRow))


class Leases:
    """The leases of jobs, of renders, and of parked VMs that wait for a job. Safe in any thread."""

    def __init__(self, database: Database, jobs: Jobs, attempts: Attempts, meter: Meter) -> None:
        self._database = database
        self._jobs = jobs
        self._attempts = attempts
        self._meter = meter
        self._claims = LeaseClaims(database)
        leases = LeaseRow.select(*_LEASE.selected)
        this = LeaseRow.id == slot("id")
        live = LeaseRow.state != LeaseState.ENDED
        coalesce = peewee.fn.COALESCE
        self._get = Query(database, lambda: leases.where(this), _LEASE)
        self._by_uuid = Query(database, lambda: leases.where(LeaseRow.uuid == slot("uuid")), _LEASE)
        self._of_job = Query(
            database,
            lambda: leases.where(LeaseRow.job == slot("job_id")).order_by(LeaseRow.attempt.desc()).limit(1),
            _LEASE,
        )
        self._live = Query(database, lambda: leases.where(live).order_by(LeaseRow.id), _LEASE)
        self._move = Write(
            database,
            lambda: LeaseRow.update({LeaseRow.state: slot("new"), LeaseRow.member: slot("member")}).where(
                this, LeaseRow.state == LeaseState.CREATING
            ),
        )
        self._start = Write(
            database,
            lambda: LeaseRow.update(
                {
                    LeaseRow.started_at: slot("now"),
                    LeaseRow.boot: slot("boot"),
                    LeaseRow.started_uptime: slot("uptime"),
                }
            ).where(this, LeaseRow.started_at.is_null()),
        )
        self._kill = Write(database, lambda: LeaseRow.update({LeaseRow.killed_by: slot("by")}).where(this, live))
        self._seen_at = Query(
            database, lambda: LeaseRow.select(coalesce(LeaseRow.seen_at, LeaseRow.started_at)).where(this), first
        )
        self._seen = Write(database, lambda: LeaseRow.update({LeaseRow.seen_at: slot("now")}).where(this))
        self._end = Write(
            database,
            lambda: LeaseRow.update(
                {
                    LeaseRow.state: LeaseState.ENDED,
                    LeaseRow.finished_at: coalesce(LeaseRow.finished_at, slot("now")),
                }
            ).where(this),
        )
        self._end_unclaimed = Write(
            database,
            lambda: LeaseRow.update({LeaseRow.state: LeaseState.ENDED, LeaseRow.finished_at: slot("now")}).where(
                this, live, LeaseRow.job.is_null()
            ),
        )
        self._assign_job = Query(
            database,
            lambda: (
                JobRow.update({JobRow.state: JobState.ASSIGNED, JobRow.attempt: JobRow.attempt + 1})
                .where(JobRow.id == slot("job_id"), JobRow.state == JobState.SCHEDULED)
                .returning(JobRow.organization, JobRow.attempt)
            ),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._note_image = Write(
            database,
            lambda: JobRow.update(
                {JobRow.image_digest: slot("digest"), JobRow.service_image_digests: slot("of_services")}
            ).where(JobRow.id == slot("job_id")),
        )
        build = JobRow.select(JobRow.build).where(JobRow.id == slot("job_id"))
        self._start_build = Write(
            database,
            lambda: BuildRow.update({BuildRow.started_at: slot("now")}).where(
                BuildRow.id == build, BuildRow.started_at.is_null()
            ),
        )

    def get(self, lease_id: int) -> Lease | None:
        """Return a lease by row id."""
        return self._get.one(id=lease_id)

    def by_uuid(self, uuid: str) -> Lease | None:
        """Return a lease by UUID, which is also its VM's name."""
        return self._by_uuid.one(uuid=uuid)

    def of_job(self, job_id: int) -> Lease | None:
        """Return the lease of a job's latest attempt.

        Its row may be older than the attempt, because the VM may have been parked before.
        """
        return self._of_job.one(job_id=job_id)

    def live(self) -> list[Lease]:
        """Return every lease whose VM may exist, oldest first."""
        return self._live.all()

    def counts(self) -> dict[LeaseState, int]:
        """Return how many live leases are in each state; a state without leases is absent."""
        return dict(Counter(lease.state for lease in self.live()))

    def members(self) -> dict[str, int]:
        """Return how many live leases have a VM on each member of a cluster; one without any is absent."""
        return dict(Counter(lease.member for lease in self.live() if lease.member is not None))

    def reserve_parked(self, uuid: str, provider: str) -> Lease:
        """Add the lease of a VM without a disk, before the VM is made."""
        with self._database.write():
            return self._add(uuid, provider, Claim())

    def reserve_unclaimed(self, uuid: str, provider: str, image: str, shape: Shape) -> Lease:
        """Add the lease of a VM that renders without a build so far, with network, before the VM is created."""
        with self._database.write():
            return self._add(uuid, provider, Claim(image, shape))

    def reserve_render(
        self, uuid: str, provider: str, image: str, shape: Shape, *, organization_id: int, build_id: int
    ) -> Lease:
        """Add the lease of a VM that renders a build, with network, before the VM is created; it is free."""
        with self._database.write():
            return self._add(uuid, provider, Claim(image, shape, organization_id=organization_id, build_id=build_id))

    def reserve_fork(
        self, uuid: str, provider: str, image: str, shape: Shape, *, network: bool, organization_id: int
    ) -> Lease:
        """Add the lease of a VM with a fork of a job's disk, in the caller's transaction, which also holds it."""
        return self._add(uuid, provider, Claim(image, shape, network=network, organization_id=organization_id))

    def ready(self, lease_id: int) -> Lease | None:
        """Return the lease of a parked VM; None if it is being made, has ended or is somebody's."""
        lease = self.get(lease_id)
        return lease if lease is not None and lease.state is LeaseState.PARKED else None

    def assign_fork(
        self, lease_id: int, image: str, shape: Shape, *, network: bool, organization_id: int
    ) -> Lease | None:
        """Give the lease of a parked VM to a fork, in the caller's transaction, which also holds it.

        None and no change if it has ended. No lease pool may know the VM any more.
        """
        if self.ready(lease_id) is None:
            return None
        return self._give(lease_id, Claim(image, shape, network=network, organization_id=organization_id))

    def assign_render(
        self, lease_id: int, image: str, shape: Shape, *, organization_id: int, build_id: int
    ) -> Lease | None:
        """Give the lease of a VM without a job, parked or being parked, to the render of a build.

        None and no change if the lease has ended or has a job.
        """
        return self._assign(lease_id, Claim(image, shape, organization_id=organization_id, build_id=build_id))

    def assign_preview(self, lease_id: int, image: str, shape: Shape) -> Lease | None:
        """Give the lease of a VM without a job to the render of an archive, as `assign_render` does.

        No lease pool may know the VM, for it would give it to a job, too.
        """
        return self._assign(lease_id, Claim(image, shape))

    def parked(self, lease_id: int, member: str | None = None) -> bool:
        """Note that a parked VM is ready for a job, on a member; False if the lease is not ``creating``."""
        return self._made(lease_id, LeaseState.PARKED, member)

    def active(self, lease_id: int, job_id: int | None = None, member: str | None = None) -> bool:
        """Note that a VM is ready, for a job's open attempt if given; False if the lease is not ``creating``."""
        with self._database.write():
            if job_id is not None:
                self._attempts.leased(job_id)
            return self._made(lease_id, LeaseState.ACTIVE, member)

    def assign(
        self,
        job_id: int,
        *,
        provider: str,
        image: str | None,
        shape: Shape,
        network: bool,
        parked_lease_id: int | None,
        lease_uuid: str,
    ) -> Lease | None:
        """Move a job from ``scheduled`` to ``assigned`` with a new attempt and a lease, in one transaction.

        The lease is that of a VM without a job if given, parked or being parked, else a new one; it is ``creating``.
        None and no change if the job is not ``scheduled``, or the given lease has ended or has a job.
        """
        with self._database.write():
            parked = None if parked_lease_id is None else self.get(parked_lease_id)
            if parked_lease_id is not None and not self._is_free(parked):
                return None
            assigned = self._assign_job.one(job_id=job_id)
            if assigned is None:
                return None
            organization_id, attempt = assigned
            self._attempts.open(job_id, attempt, self._database.now())
            claim = Claim(
                image, shape, network=network, organization_id=organization_id, job_id=job_id, attempt=attempt
            )
            return self._add(lease_uuid, provider, claim) if parked is None else self._give(parked.id, claim)

    def start(
        self, lease_id: int, job_id: int, attempt: int | None = None, digests: ImageDigests | None = None
    ) -> bool:
        """Note in lease, attempt, job and build that a job's command started; billing starts with it.

        False and no change if the job is not ``assigned``, or at another attempt than ``attempt``.
        """
        with self._database.write():
            if not self._jobs.move(job_id, JobState.ASSIGNED, JobState.RUNNING, attempt=attempt):
                return False
            now, noted = self._database.now(), digests or ImageDigests()
            self._start.run(id=lease_id, now=now, boot=boot_id(), uptime=self._database.uptime())
            self._attempts.start(job_id, now)
            self._note_image.run(job_id=job_id, digest=noted.image, of_services=json.dumps(dict(noted.services)))
            self._start_build.run(job_id=job_id, now=now)
            return True

    def kill(self, lease_id: int, by: str) -> None:
        """Note the operator who is about to end a VM; an ended lease stays as it is."""
        with self._database.write():
            self._kill.run(id=lease_id, by=by)

    def note_running(self, lease_id: int) -> float:
        """Note that a lease's command still runs; return for how many seconds it has run."""
        with self._database.write():
            now = self._meter.now(lease_id)
            self._seen.run(id=lease_id, now=now)
            return self._seconds(lease_id, now)

    def note_exit(self, lease_id: int, job_id: int, seconds_ago: float | None) -> float:
        """Note that a lease's command ended ``seconds_ago``, or now if None; return the seconds it ran.

        The VM reports the end and is not trusted: an end before the command was last seen running is moved to then.
        """
        with self._database.write():
            now = self._meter.now(lease_id)
            ago = 0 if seconds_ago is None else round(min(seconds_ago * SECOND, now))
            at = max(now - ago, self._seen_at.one(id=lease_id) or now)
            self._attempts.note_end(job_id, at)
            return self._seconds(lease_id, at)

    def end(self, lease_id: int) -> None:
        """Note that a lease's VM is gone. Idempotent."""
        with self._database.write():
            self._end.run(id=lease_id, now=self._database.now())

    def end_unclaimed(self, lease_id: int) -> bool:
        """End a lease that no job has; False if a job has taken it or it has ended."""
        with self._database.write():
            return self._end_unclaimed.run(id=lease_id, now=self._database.now()) == 1

    def _assign(self, lease_id: int, claim: Claim) -> Lease | None:
        with self._database.write():
            return self._give(lease_id, claim) if self._is_free(self.get(lease_id)) else None

    @staticmethod
    def _is_free(lease: Lease | None) -> bool:
        if lease is None or lease.state is LeaseState.ENDED:
            return False
        return lease.job_id is None and lease.build_id is None and not lease.is_fork

    def _seconds(self, lease_id: int, until: int) -> float:
        started_at = written(self.get(lease_id)).started_at
        return 0.0 if started_at is None else (until - to_micros(started_at)) / SECOND

    def _made(self, lease_id: int, state: LeaseState, member: str | None) -> bool:
        with self._database.write():
            return self._move.run(id=lease_id, new=state, member=member) == 1

    def _add(self, uuid: str, provider: str, claim: Claim) -> Lease:
        return written(self.get(self._claims.add(uuid, provider, claim)))

    def _give(self, lease_id: int, claim: Claim) -> Lease:
        self._claims.give(lease_id, claim)
        return written(self.get(lease_id))


@immutable
class Claim:
    """A job's attempt or a build's render, with the VM that it needs; a parked VM is for neither."""

    image: str | None = None
    shape: Shape = field(default_factory=Shape)
    network: bool = True
    organization_id: int | None = None
    job_id: int | None = None
    attempt: int = 0
    build_id: int | None = None


_CLAIM: Slots[Claim] = Slots(Claim, LeaseRow, shape=Slots(Shape, LeaseRow))


class LeaseClaims:
    """Writes claims into new and free leases, which then are ``creating``, in the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = Write(
            database,
            lambda: insert_into(
                LeaseRow, "started_at", "finished_at", "boot", "started_uptime", "killed_by", "seen_at", "member"
            ),
        )
        self._adopt = Write(
            database,
            lambda: LeaseRow.update(
                {LeaseRow.state: LeaseState.CREATING}
                | {column: slot(column.column_name) for column in _CLAIM.columns.values()}
            ).where(LeaseRow.id == slot("id")),
        )

    def add(self, uuid: str, provider: str, claim: Claim) -> int:
        """Add the lease of a VM that is to be made; return its row id."""
        return self._insert.insert(
            uuid=uuid,
            provider=provider,
            state=LeaseState.CREATING,
            created_at=self._database.now(),
            amount_cents=0,
            **_CLAIM(claim),
        )

    def give(self, lease_id: int, claim: Claim) -> None:
        """Give the lease of a VM without a job to what claims it."""
        self._adopt.run(id=lease_id, **_CLAIM(claim))
