"""The disks of failed jobs that are kept for some days (engine.md, "Kept disks")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.billing.settings import MICRO_CENTS
from storage.database.clock import DAY, SECOND, from_micros
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import DiskDayRow, KeptDiskRow, SnapshotRow
from storage.models.pipelines import PipelineRow
from storage.records.leases import DiskOfJob, KeptDisk, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.billing.ledger import Ledger
    from storage.billing.settings import BillingSettings
    from storage.database.connection import Database
    from storage.records.builds import Build

_KEPT = Columns.of(KeptDisk, KeptDiskRow, bytes=SnapshotRow.bytes)
_SNAPSHOT = Columns.of(Snapshot, SnapshotRow)
_OF_JOB = Columns.of(
    DiskOfJob,
    KeptDiskRow,
    bytes=SnapshotRow.bytes,
    job_uuid=JobRow.uuid,
    step_key=JobRow.step_key,
    build_number=BuildRow.number,
    pipeline_slug=PipelineRow.slug,
)
_LONGEST_CHARGE = 3600
"""The most seconds of one charge: time without a service, or by which a clock was set, is free."""


class KeptDisks:
    """Names the snapshots of failed jobs that people may still look into. Safe in any thread.

    `Snapshots.unneeded` decides when a snapshot may be removed: neither these nor the disks below them.
    """

    def __init__(self, database: Database, billing: BillingSettings, ledger: Ledger) -> None:
        self._database = database
        self._price = 0 if billing.free else billing.kept_disk_gb
        self._ledger = ledger
        of_snapshot = KeptDiskRow.snapshot == SnapshotRow.name
        self._all = Query(
            database,
            lambda: (
                KeptDiskRow.select(*_KEPT.selected)
                .join(SnapshotRow, on=of_snapshot)
                .order_by(KeptDiskRow.created_at, KeptDiskRow.snapshot)
            ),
            _KEPT,
        )
        self._of_job = Query(
            database,
            lambda: (
                SnapshotRow.select(*_SNAPSHOT.selected)
                .join(KeptDiskRow, on=of_snapshot)
                .where(SnapshotRow.job == slot("job_id"))
                .order_by(SnapshotRow.id.desc())
                .limit(1)
            ),
            _SNAPSHOT,
        )
        self._of_organization = Query(
            database,
            lambda: (
                KeptDiskRow.select(*_OF_JOB.selected)
                .join(SnapshotRow, on=of_snapshot)
                .join(JobRow)
                .join(BuildRow)
                .join(PipelineRow)
                .where(KeptDiskRow.organization == slot("organization_id"))
                .order_by(KeptDiskRow.created_at.desc(), KeptDiskRow.snapshot.desc())
            ),
            _OF_JOB,
        )
        self._insert = Write(database, lambda: insert_into(KeptDiskRow, "charged_at").on_conflict_ignore())
        self._charged = Query(
            database,
            lambda: (
                KeptDiskRow.select(
                    KeptDiskRow.organization,
                    SnapshotRow.bytes,
                    peewee.fn.COALESCE(KeptDiskRow.charged_at, KeptDiskRow.created_at),
                )
                .join(SnapshotRow, on=of_snapshot)
                .where(SnapshotRow.bytes.is_null(is_null=False))
            ),
            tuple,
        )
        self._mark = Write(database, lambda: KeptDiskRow.update(charged_at=slot("now")))
        self._add_use = Write(
            database,
            lambda: insert_into(DiskDayRow, "amount_cents", "entry_id").on_conflict(
                conflict_target=(DiskDayRow.organization, DiskDayRow.day),
                update={
                    DiskDayRow.mb_seconds: DiskDayRow.mb_seconds + slot("mb_seconds"),
                    DiskDayRow.micro_cents: DiskDayRow.micro_cents + slot("micro_cents"),
                },
                where=DiskDayRow.amount_cents.is_null(),
            ),
        )
        over = DiskDayRow.select(DiskDayRow.organization, DiskDayRow.day).where(
            DiskDayRow.amount_cents.is_null(), DiskDayRow.day < slot("day")
        )
        self._days_over = Query(database, lambda: over.order_by(DiskDayRow.day, DiskDayRow.organization), tuple)
        coalesce, total = peewee.fn.COALESCE, peewee.fn.SUM
        self._owed = Query(
            database,
            lambda: DiskDayRow.select(
                total(DiskDayRow.micro_cents) - MICRO_CENTS * coalesce(total(DiskDayRow.amount_cents), 0)
            ).where(DiskDayRow.organization == slot("organization_id"), DiskDayRow.day <= slot("day")),
            first,
        )
        self._close = Write(
            database,
            lambda: DiskDayRow.update(amount_cents=slot("amount_cents"), entry=slot("entry_id")).where(
                DiskDayRow.organization == slot("organization_id"), DiskDayRow.day == slot("day")
            ),
        )
        self._drop = Write(database, lambda: KeptDiskRow.delete().where(KeptDiskRow.snapshot == slot("name")))

    def keep(self, name: str, build: Build) -> None:
        """Keep the snapshot of a failed job of a build; one that is kept already stays as it is."""
        with self._database.write():
            self._insert.run(
                snapshot=name,
                organization_id=build.organization_id,
                pipeline_id=build.pipeline_id,
                created_at=self._database.now(),
            )

    def all(self) -> list[KeptDisk]:
        """Return every kept disk, oldest first."""
        return self._all.all()

    def of_job(self, job_id: int) -> Snapshot | None:
        """Return the snapshot that a job has left last, if it is kept."""
        return self._of_job.one(job_id=job_id)

    def of_organization(self, organization_id: int) -> list[DiskOfJob]:
        """Return the kept disks of an organization with the names of their jobs, newest first."""
        return self._of_organization.all(organization_id=organization_id)

    def charge(self) -> None:
        """Note what the kept disks took since the last charge, and debit the days that are over.

        Each organization has one debit for a day, of whole cents; the rest of a cent goes to its next day. A disk
        that is not measured yet is charged later.
        """
        with self._database.write():
            now = self._database.now()
            day = now - now % DAY
            used: dict[int, int] = {}
            for organization_id, size, since in self._charged.all():
                seconds = min(max(0, now - since) // SECOND, _LONGEST_CHARGE)
                used[organization_id] = used.get(organization_id, 0) + (size * seconds >> 20)
            for organization_id, mb_seconds in used.items():
                micro_cents = mb_seconds * self._price >> 10
                self._add_use.run(
                    organization_id=organization_id, day=day, mb_seconds=mb_seconds, micro_cents=micro_cents
                )
            if used:
                self._mark.run(now=now)
            for organization_id, over in self._days_over.all(day=day):
                self._debit(organization_id, over)

    def _debit(self, organization_id: int, day: int) -> None:
        cents = max(0, (self._owed.one(organization_id=organization_id, day=day) or 0) // MICRO_CENTS)
        entry_id = None
        if cents:
            entry_id = self._ledger.debit_disks(organization_id, cents, f"{from_micros(day):%Y-%m-%d}")
        self._close.run(organization_id=organization_id, day=day, amount_cents=cents, entry_id=entry_id)

    def drop(self, names: Iterable[str]) -> None:
        """Keep these snapshots no longer; missing ones are ignored."""
        with self._database.write():
            for name in names:
                self._drop.run(name=name)
