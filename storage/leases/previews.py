"""Previews of the disks of passed jobs, as rows (engine.md, "Previews")."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import peewee

from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import HoldRow, PreviewRow, SnapshotRow
from storage.models.source_hosts import BuildOriginRow
from storage.records.leases import KeptDisk, Preview

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.database.connection import Database
    from storage.database.statements import SqlValue
    from storage.records.builds import Build
    from storage.records.jobs import Job

_PREVIEW = Columns.of(
    Preview, PreviewRow, holding=(HoldRow.id.is_null(is_null=False) & HoldRow.finished_at.is_null(), bool)
)
_DISK = Columns.of(
    KeptDisk,
    SnapshotRow,
    snapshot=PreviewRow.disk,
    organization_id=PreviewRow.organization,
    created_at=PreviewRow.created_at,
)
_REPLACED = "a newer build of its branch has another"


class Previews:
    """The previews by the jobs whose disks they serve. Safe in any thread.

    When one ends, the host of its build is told once more.
    `Snapshots.unneeded` spares their disks until they are gone.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        there, this = PreviewRow.ended_at.is_null(), PreviewRow.id == slot("id")
        of_build = JobRow.select(JobRow.id).where(JobRow.build == slot("build_id"))
        self._there = Query(database, lambda: _rows().where(there).order_by(PreviewRow.until), _PREVIEW)
        self._by_uuid = Query(database, lambda: _rows().where(PreviewRow.uuid == slot("uuid")), _PREVIEW)
        self._of_build = Query(database, lambda: _rows().where(PreviewRow.job.in_(of_build)), _PREVIEW)
        self._disks = Query(
            database,
            lambda: (
                PreviewRow.select(*_DISK.selected)
                .join(SnapshotRow, on=SnapshotRow.name == PreviewRow.disk)
                .where(there)
                .order_by(PreviewRow.until)
            ),
            _DISK,
        )
        self._insert = Write(
            database,
            lambda: insert_into(PreviewRow, "hold_id", "answers", "looked_at", "failure", "ended_at", "why_ended"),
        )

        def ends(*which: peewee.Node) -> _End:
            return _End(database, there, *which)

        same_branch = (
            JobRow.select(JobRow.id)
            .join(BuildRow)
            .where(JobRow.id == PreviewRow.job, JobRow.step_key == slot("step_key"), BuildRow.branch == slot("branch"))
        )
        of_pull_request = (
            JobRow.select(JobRow.id)
            .join(BuildOriginRow, on=BuildOriginRow.build == JobRow.build)
            .where(
                JobRow.id == PreviewRow.job,
                BuildOriginRow.repository == slot("repository_id"),
                BuildOriginRow.pull_request == slot("pull_request"),
            )
        )
        self._pull_request = Query(
            database,
            lambda: BuildOriginRow.select(BuildOriginRow.pull_request).where(
                BuildOriginRow.build == slot("build_id"), BuildOriginRow.pull_request.is_null(is_null=False)
            ),
            first,
        )
        self._replace = ends(PreviewRow.pipeline == slot("pipeline_id"), peewee.fn.EXISTS(same_branch))
        self._end = ends(this)
        self._end_late = ends(PreviewRow.until <= slot("now"))
        self._end_of_pull_request = ends(peewee.fn.EXISTS(of_pull_request))
        self._end_of_disk = ends(PreviewRow.disk == slot("disk"))
        begun = {
            PreviewRow.hold: slot("hold_id"),
            PreviewRow.answers: 0,
            PreviewRow.failure: None,
            PreviewRow.looked_at: slot("now"),
        }
        self._begin = Write(database, lambda: PreviewRow.update(begun).where(this, there))
        self._answer = Write(database, lambda: PreviewRow.update({PreviewRow.answers: 1}).where(this))
        self._fail = Write(database, lambda: PreviewRow.update({PreviewRow.failure: slot("why")}).where(this))
        self._look = Write(database, lambda: PreviewRow.update({PreviewRow.looked_at: slot("now")}).where(this))

    def add(self, build: Build, job: Job, disk: str) -> None:
        """Add the preview of a job that has passed, in the place of those of earlier builds of its branch.

        Those of forks are for members, because strangers decide what they show.
        """
        spec = job.its_preview
        if spec is None:
            return
        with self._database.write():
            of_pull_request = self._pull_request.one(build_id=build.id) is not None
            now = self._database.now()
            self._replace.run(
                pipeline_id=build.pipeline_id, step_key=job.step_key, branch=build.branch, now=now, why=_REPLACED
            )
            self._insert.run(
                uuid=job.preview_uuid,
                organization_id=build.organization_id,
                pipeline_id=build.pipeline_id,
                job_id=job.id,
                disk=disk,
                public=spec.everyone and not build.from_fork,
                created_at=now,
                until=now + spec.lasting(of_pull_request=of_pull_request) * SECOND,
            )

    def there(self) -> list[Preview]:
        """Return the previews that are not gone."""
        return self._there.all()

    def by_uuid(self, uuid: str) -> Preview | None:
        """Return a preview, also one that is gone."""
        return self._by_uuid.one(uuid=uuid)

    def of_build(self, build_id: int) -> list[Preview]:
        """Return the previews of a build's jobs, also those that are gone, oldest first."""
        return sorted(self._of_build.all(build_id=build_id), key=attrgetter("id"))

    def disks(self) -> list[KeptDisk]:
        """Return the disks of the previews that are not gone."""
        return self._disks.all()

    def begin(self, preview_id: int, hold_id: int) -> bool:
        """Note the VM with which a preview wakes, in the caller's transaction; False if it is gone."""
        return self._begin.run(id=preview_id, hold_id=hold_id, now=self._database.now()) == 1

    def answers(self, preview_id: int) -> None:
        """Note that the program of a preview answers."""
        with self._database.write():
            self._answer.run(id=preview_id)

    def fail(self, preview_id: int, why: str) -> None:
        """Note why a preview did not wake, or fell asleep."""
        with self._database.write():
            self._fail.run(id=preview_id, why=why)

    def look(self, preview_id: int) -> None:
        """Note that somebody looks at a preview."""
        with self._database.write():
            self._look.run(id=preview_id, now=self._database.now())

    def end(self, preview_id: int, why: str) -> None:
        """End a preview; one that is gone stays as it is."""
        with self._database.write():
            self._end.run(id=preview_id, now=self._database.now(), why=why)

    def end_late(self) -> None:
        """End the previews whose time is up."""
        with self._database.write():
            self._end_late.run(now=self._database.now(), why="its time is up")

    def end_of_pull_request(self, repository_id: int, number: int) -> None:
        """End the previews of a pull request that was closed."""
        with self._database.write():
            self._end_of_pull_request.run(
                repository_id=repository_id,
                pull_request=number,
                now=self._database.now(),
                why=f"the pull request {number} was closed",
            )

    def end_of_disks(self, names: Iterable[str], why: str) -> None:
        """End the previews of these disks; for others nothing happens."""
        with self._database.write():
            for name in names:
                self._end_of_disk.run(disk=name, now=self._database.now(), why=why)


class _End:
    """The end of some previews, and another report of their builds, whose hosts show that these are there."""

    def __init__(self, database: Database, *which: peewee.Node) -> None:
        ended = {PreviewRow.ended_at: slot("now"), PreviewRow.why_ended: slot("why")}
        job = JobRow.alias()
        builds = job.select(job.build).join(PreviewRow, on=PreviewRow.job == job.id).where(*which)
        amended = {BuildOriginRow.report_at: slot("now"), BuildOriginRow.reported: None}
        reported = BuildOriginRow.reported.is_null(is_null=False)
        self._amend = Write(
            database, lambda: BuildOriginRow.update(amended).where(BuildOriginRow.build.in_(builds), reported)
        )
        self._end = Write(database, lambda: PreviewRow.update(ended).where(*which))

    def run(self, **values: SqlValue) -> None:
        """End them, in the caller's transaction."""
        of_which = {name: value for name, value in values.items() if name != "why"}
        self._amend.run(**of_which)
        self._end.run(**values)


def _rows() -> peewee.ModelSelect[PreviewRow]:
    return PreviewRow.select(*_PREVIEW.selected).join(HoldRow, peewee.JOIN.LEFT_OUTER)
