"""The queue for VMs: the jobs in state ``scheduled``, in order of their turns per organization."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import peewee

from storage.data_classes import immutable
from storage.database.clock import SECOND, to_micros
from storage.database.statements import Columns, Query, SqlValue, Write, first, slot
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, EdgeRow, JobRow
from storage.models.leases import LeaseRow
from storage.models.pipelines import RegistryLoginRow
from storage.records.jobs import AwaitingJob, EdgeKind, JobState, QueuedJob, Shape
from storage.records.leases import PastUse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from storage.database.connection import Database
    from storage.records.jobs import Job

_PARENT = EdgeRow.select(EdgeRow.from_job).where(EdgeRow.to_job == JobRow.id, EdgeRow.kind == EdgeKind.BUILDS_IN)
_QUEUED = Columns.of(
    QueuedJob,
    JobRow,
    job_id=JobRow.id,
    weight=OrganizationRow.weight,
    shape=Columns.of(Shape, JobRow),
    parent_snapshot_job_id=(_PARENT, int),
)
_AWAITING = Columns.of(AwaitingJob, JobRow, job_id=JobRow.id, build_uuid=BuildRow.uuid)
_USE = Columns.of(PastUse, LeaseRow)


@immutable
class _BackOff:
    """The end of a job's back-off, and whether it is over."""

    until: datetime
    over: bool


@immutable
class _WantedLock:
    """A job that waits for its lock, which ``limit`` jobs have at a time."""

    job_id: int
    organization_id: int
    lock: str
    limit: int


_LOCK = Columns(_WantedLock, JobRow.id, JobRow.organization, JobRow.lock, JobRow.lock_limit)


class Queue:
    """Jobs that wait for a VM.

    A job that backs off before its next attempt, or waits for its image or lock, is not in the queue until that is
    over. The
    cost of a query does not grow with the queue, except for `length`, `position` and `positions`, which count jobs.
    Safe in any thread.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        scheduled = JobRow.state == JobState.SCHEDULED
        ready = scheduled & JobRow.not_before.is_null() & JobRow.awaited_image.is_null()
        waits = ready & (JobRow.awaits_lock == 0)
        backs_off = scheduled & JobRow.not_before.is_null(is_null=False)
        of_organization = JobRow.organization == slot("organization_id")
        arrival = (JobRow.scheduled_at, JobRow.position, JobRow.id)
        turn = (JobRow.turn_at, JobRow.position, JobRow.id)
        this_job: Any = JobRow.alias()
        queued = JobRow.select(*_QUEUED.selected).join(OrganizationRow)
        since_when = JobRow.not_before - SECOND * peewee.fn.JSON_EXTRACT(JobRow.retry_policy, "$.backoff_seconds")
        over = (JobRow.not_before <= slot("now")) | (since_when > slot("now"))
        back_off = Columns(_BackOff, JobRow.not_before, (over, bool))
        self._head_after = Query(
            database,
            lambda: (
                queued.where(waits, JobRow.organization > slot("after")).order_by(JobRow.organization, *turn).limit(1)
            ),
            _QUEUED,
        )
        self._head = Query(database, lambda: queued.where(waits, of_organization).order_by(*turn).limit(1), _QUEUED)
        self._following = Query(
            database, lambda: queued.where(waits, of_organization).order_by(*turn).limit(slot("limit")), _QUEUED
        )
        self._backing_off = Query(
            database,
            lambda: JobRow.select(JobRow.id).where(backs_off).order_by(JobRow.not_before).limit(slot("limit")),
            first,
        )
        self._length = Query(database, lambda: JobRow.select(peewee.fn.COUNT(JobRow.id)).where(waits), first)
        self._ahead = Query(
            database,
            lambda: JobRow.select(peewee.fn.COUNT(JobRow.id)).where(
                waits,
                of_organization,
                peewee.Tuple(*turn)
                < this_job.select(this_job.turn_at, this_job.position, this_job.id).where(
                    this_job.id == slot("job_id")
                ),
            ),
            first,
        )
        self._of_organization = Query(
            database,
            lambda: JobRow.select(JobRow.id, JobRow.build).where(waits, of_organization).order_by(*turn),
            lambda row: (int(row[0]), int(row[1])),
        )
        self._wake = Write(database, lambda: JobRow.update({JobRow.not_before: None}).where(backs_off, over))
        self._next_wake = Query(
            database,
            lambda: JobRow.select(*back_off.selected).where(backs_off).order_by(JobRow.not_before).limit(1),
            back_off,
        )
        since: Columns[datetime] = Columns(lambda at: at, JobRow.queued_at)
        self._oldest = Query(
            database,
            lambda: (
                JobRow.select(*since.selected)
                .where(waits, JobRow.queued_at.is_null(is_null=False))
                .order_by(JobRow.queued_at)
                .limit(1)
            ),
            since,
        )
        self._overdue = Query(
            database,
            lambda: (
                queued.where(waits, JobRow.queued_at <= slot("before")).order_by(JobRow.queued_at).limit(slot("limit"))
            ),
            _QUEUED,
        )
        awaits = scheduled & JobRow.awaited_image.is_null(is_null=False)
        this_image = awaits & (JobRow.awaited_image == slot("awaited"))
        self._image_after = Query(
            database,
            lambda: (
                JobRow.select(JobRow.image).where(waits, JobRow.image > slot("after")).order_by(JobRow.image).limit(1)
            ),
            _text,
        )
        of_image = waits & (JobRow.image == slot("image")) & ~peewee.fn.EXISTS(_PARENT)
        trusted = BuildRow.select(BuildRow.id).where(BuildRow.id == JobRow.build, BuildRow.untrusted_origin.is_null())
        logins = RegistryLoginRow.select(RegistryLoginRow.id).where(
            RegistryLoginRow.organization == JobRow.organization, RegistryLoginRow.host == slot("host")
        )
        has_login = peewee.fn.EXISTS(trusted) & peewee.fn.EXISTS(logins)
        awaiting_image = JobRow.update({JobRow.awaited_image: slot("awaited")})
        self._await = Write(database, lambda: awaiting_image.where(of_image, ~has_login))
        self._await_by_login = Write(database, lambda: awaiting_image.where(of_image, has_login, of_organization))
        has_services = JobRow.services != "{}"
        self._services = Query(
            database,
            lambda: JobRow.select(JobRow.services).where(JobRow.id == slot("id"), has_services),
            _images_of_services,
        )
        self._await_alone = Write(
            database,
            lambda: JobRow.update({JobRow.awaited_image: slot("awaited")}).where(waits, JobRow.id == slot("id")),
        )
        self._awaited_after = Query(
            database,
            lambda: (
                JobRow.select(JobRow.awaited_image)
                .where(awaits, JobRow.awaited_image > slot("after"))
                .order_by(JobRow.awaited_image)
                .limit(1)
            ),
            _text,
        )
        self._awaiting = Query(
            database,
            lambda: JobRow.select(*_AWAITING.selected).join(BuildRow).where(this_image).order_by(JobRow.scheduled_at),
            _AWAITING,
        )
        self._awaits = Query(database, lambda: JobRow.select(JobRow.id).where(this_image).limit(1), first)
        self._end_await = Write(
            database,
            lambda: JobRow.update({JobRow.awaited_image: None, JobRow.queued_at: slot("now")}).where(this_image),
        )
        awaits_lock = scheduled & (JobRow.awaits_lock == 1)
        self._awaiting_locks = Query(
            database,
            lambda: JobRow.select(*_LOCK.selected).where(awaits_lock).order_by(*arrival).limit(slot("limit")),
            _LOCK,
        )
        self._locked = Query(
            database,
            lambda: JobRow.select(peewee.fn.COUNT(JobRow.id)).where(
                of_organization, JobRow.lock == slot("lock"), JobRow.awaits_lock == 0, JobRow.finished_at.is_null()
            ),
            first,
        )
        self._lock = Write(
            database,
            lambda: JobRow.update({JobRow.awaits_lock: 0, JobRow.queued_at: slot("now")}).where(
                awaits_lock, JobRow.id == slot("id")
            ),
        )
        self._past_use = Query(
            database,
            lambda: (
                LeaseRow.select(*_USE.selected)
                .where(
                    LeaseRow.started_at.is_null(is_null=False),
                    LeaseRow.finished_at > slot("since"),
                    LeaseRow.organization.is_null(is_null=False),
                )
                .order_by(LeaseRow.finished_at)
            ),
            _USE,
        )

    def heads(self) -> list[QueuedJob]:
        """Return the next job of every organization that has jobs in the queue."""
        found: list[QueuedJob] = []
        while (head := self._head_after.one(after=found[-1].organization_id if found else 0)) is not None:
            found.append(head)
        return found

    def head(self, organization_id: int) -> QueuedJob | None:
        """Return an organization's next job."""
        return self._head.one(organization_id=organization_id)

    def following(self, organization_id: int, limit: int) -> list[QueuedJob]:
        """Return an organization's next jobs, in queue order."""
        return self._following.all(organization_id=organization_id, limit=limit)

    def backing_off(self, limit: int) -> list[int]:
        """Return the row ids of jobs that back off, and so are not in the queue, next attempt first."""
        return self._backing_off.all(limit=limit)

    def images(self) -> list[str]:
        """Return the images that jobs in the queue name."""
        found = [""]
        while (image := self._image_after.one(after=found[-1])) is not None:
            found.append(image)
        return found[1:]

    def await_image(self, image: str, awaited: str, host: str = "", organization_id: int | None = None) -> bool:
        """Take the jobs that start from an image out of the queue until the image ``awaited`` exists.

        These are those without a login at the registry ``host``, or those of the organization that may use its own.
        Returns False if there are none.
        """
        with self._database.write():
            if organization_id is None:
                return self._await.run(image=image, awaited=awaited, host=host) > 0
            terms: dict[str, SqlValue] = {
                "image": image,
                "awaited": awaited,
                "host": host,
                "organization_id": organization_id,
            }
            return self._await_by_login.run(**terms) > 0

    def images_of_services(self, job_id: int) -> list[str]:
        """Return the images that the services of a job name."""
        return self._services.one(id=job_id) or []

    def await_image_of_service(self, job_id: int, awaited: str) -> None:
        """Take a job out of the queue, if it is there, until the image ``awaited`` exists."""
        with self._database.write():
            self._await_alone.run(id=job_id, awaited=awaited)

    def awaited_images(self) -> list[str]:
        """Return the images that jobs wait for."""
        found = [""]
        while (image := self._awaited_after.one(after=found[-1])) is not None:
            found.append(image)
        return found[1:]

    def awaiting(self, awaited: str) -> list[AwaitingJob]:
        """Return the jobs that wait for an image, longest wait first."""
        return self._awaiting.all(awaited=awaited)

    def is_awaited(self, awaited: str) -> bool:
        """Tell whether any job waits for an image."""
        return self._awaits.one(awaited=awaited) is not None

    def end_await(self, awaited: str) -> None:
        """Put the jobs that wait for an image into the queue; their queue time-outs start now."""
        with self._database.write():
            self._end_await.run(awaited=awaited, now=self._database.now())

    def give_locks(self) -> bool:
        """Give free locks to the jobs that wait longest, which are in the queue then; tell if any was.

        An end of its holder frees a lock, however that came, so that no crash leaves one taken.
        """
        if not any(self._is_free(each) for each in self._awaiting_locks.all(limit=-1)):
            return False
        with self._database.write():
            for each in self._awaiting_locks.all(limit=-1):
                if self._is_free(each):
                    self._lock.run(id=each.job_id, now=self._database.now())
        return True

    def _is_free(self, wanted: _WantedLock) -> bool:
        return (self._locked.one(organization_id=wanted.organization_id, lock=wanted.lock) or 0) < wanted.limit

    def awaiting_locks(self, limit: int) -> list[int]:
        """Return the row ids of jobs that wait for their locks, longest wait first."""
        return [each.job_id for each in self._awaiting_locks.all(limit=limit)]

    def length(self) -> int:
        """Count the jobs in the queue."""
        return self._length.one() or 0

    def position(self, job: Job) -> int | None:
        """Return a job's position in its organization's queue, from 1; None if it is not in the queue."""
        if job.state is not JobState.SCHEDULED or job.scheduled_at is None:
            return None
        if job.not_before is not None or job.awaited_image is not None or job.awaits_lock:
            return None
        ahead = self._ahead.one(
            organization_id=job.organization_id,
            job_id=job.id,
        )
        return (ahead or 0) + 1

    def positions(self, organization_id: int, build_id: int) -> dict[int, int]:
        """Return the positions of a build's queued jobs in its organization's queue, by row id."""
        queue = self._of_organization.all(organization_id=organization_id)
        return {job_id: place for place, (job_id, build) in enumerate(queue, 1) if build == build_id}

    def wake(self) -> datetime | None:
        """Put jobs whose back-off is over into the queue; return when the next back-off ends, None if none.

        A back-off that starts in the future counts as over: the clock was set back, so it would last too long.
        """
        next_wake = self._read_next_wake()
        if next_wake is not None and next_wake.over:
            with self._database.write():
                self._wake.run(now=self._database.now())
            next_wake = self._read_next_wake()
        return None if next_wake is None else next_wake.until

    def _read_next_wake(self) -> _BackOff | None:
        return self._next_wake.one(now=self._database.now())

    def oldest(self) -> datetime | None:
        """Return since when the longest-waiting job has been ready for a VM; None if no job waits."""
        return self._oldest.one()

    def longest_wait(self) -> float:
        """Return for how many seconds the longest-waiting job has been ready for a VM; 0 if no job waits."""
        since = self.oldest()
        return 0.0 if since is None else self._database.timeline.seconds_since(since)

    def overdue(self, before: datetime, limit: int) -> list[QueuedJob]:
        """Return jobs that have been ready for a VM since ``before`` or earlier, longest wait first."""
        return self._overdue.all(before=to_micros(before), limit=limit)

    def past_use(self, span: timedelta) -> list[PastUse]:
        """Return organizations' uses of VMs that ended within the last ``span``, in order of end."""
        return self._past_use.all(since=self._database.ago(int(span.total_seconds() * SECOND)))


def _text(row: Sequence[str]) -> str:
    return row[0]


def _images_of_services(row: Sequence[str]) -> list[str]:
    return [service["image"] for service in json.loads(row[0]).values()]
