"""Holds: the VMs of failed jobs, kept for debugging if the build asks for it, at a price of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import peewee

from storage.billing.settings import MICRO_CENTS, price
from storage.database.clock import SECOND, to_micros
from storage.database.statements import Columns, Query, Write, first, insert_into, slot, written
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import HoldRow, LeaseRow
from storage.records.jobs import Shape
from storage.records.leases import PREVIEW_OPENER, Hold, HoldEnd

if TYPE_CHECKING:
    from storage.billing.budgets import BudgetCharges
    from storage.billing.ledger import Ledger
    from storage.billing.settings import BillingSettings
    from storage.database.connection import Database

_HOLD = Columns.of(Hold, HoldRow, vm=LeaseRow.uuid)
_HELD = Columns(
    lambda organization_id, job_id, shape: (organization_id, job_id, shape),
    LeaseRow.organization,
    LeaseRow.job,
    Columns.of(Shape, LeaseRow),
)


def _what(hold: Hold) -> str:
    """Return what was done with a held VM."""
    if hold.opened_by is None:
        return "held"
    return "preview" if hold.opened_by == PREVIEW_OPENER else "forked"


class Holds:
    """VMs that outlive their jobs, and those of forks of jobs' disks. Safe in any thread.

    A hold is debited once, when it ends, for whole seconds in whole cents like a lease. Time after its planned end is
    free, however late the end is noticed.
    """

    def __init__(self, database: Database, billing: BillingSettings, ledger: Ledger, budgets: BudgetCharges) -> None:
        self._database = database
        self._billing = billing
        self._budgets = budgets
        self._ledger = ledger
        this, unfinished = HoldRow.id == slot("id"), HoldRow.finished_at.is_null()
        holds = HoldRow.select(*_HOLD.selected).join(LeaseRow)
        over = (HoldRow.until <= slot("now")) | (HoldRow.started_at > slot("now"))
        coalesce, least = peewee.fn.COALESCE, peewee.fn.MIN
        self._get = Query(database, lambda: holds.where(this), _HOLD)
        self._open = Query(database, lambda: holds.where(unfinished).order_by(HoldRow.id), _HOLD)
        self._over = Query(database, lambda: holds.where(unfinished, over).order_by(HoldRow.id), _HOLD)
        self._of_lease = Query(database, lambda: holds.where(unfinished, HoldRow.lease == slot("lease_id")), _HOLD)
        of_build = holds.join(JobRow, on=JobRow.id == HoldRow.job).where(unfinished, JobRow.build == slot("build_id"))
        self._of_build = Query(database, lambda: of_build, _HOLD)
        self._held = Query(database, lambda: LeaseRow.select(*_HELD.selected).where(LeaseRow.id == slot("id")), _HELD)
        budget_of_job = BuildRow.select(BuildRow.budget_id).join(JobRow).where(JobRow.id == slot("id"))
        self._budget_of_job = Query(database, lambda: budget_of_job, first)
        self._insert = Write(database, lambda: insert_into(HoldRow, "reason", "finished_at", "entry_id"))
        shortened = {
            HoldRow.until: peewee.fn.MAX(HoldRow.started_at, least(HoldRow.until, slot("now"))),
            HoldRow.reason: coalesce(HoldRow.reason, slot("reason")),
        }
        self._shorten = Write(database, lambda: HoldRow.update(shortened).where(this, unfinished))
        of_pipeline = (
            JobRow.select(JobRow.id)
            .join(BuildRow)
            .where(JobRow.id == HoldRow.job, BuildRow.pipeline == slot("pipeline_id"))
        )
        deleted = peewee.fn.EXISTS(of_pipeline) | (HoldRow.organization == slot("organization_id"))
        self._shorten_all = Write(database, lambda: HoldRow.update(shortened).where(unfinished, deleted))
        self._release_job = Write(
            database,
            lambda: HoldRow.update(shortened).where(
                unfinished, HoldRow.job == slot("job_id"), HoldRow.opened_by.is_null(is_null=True)
            ),
        )
        self._lengthen = Write(
            database,
            lambda: HoldRow.update({HoldRow.until: peewee.fn.MAX(HoldRow.until, slot("until"))}).where(
                this, unfinished, HoldRow.reason.is_null()
            ),
        )
        self._finish = Write(
            database,
            lambda: HoldRow.update(
                {
                    HoldRow.reason: slot("reason"),
                    HoldRow.finished_at: slot("finished_at"),
                    HoldRow.amount_cents: slot("amount_cents"),
                    HoldRow.entry: slot("entry_id"),
                }
            ).where(this, unfinished),
        )

    def begin(self, lease_id: int, seconds: int) -> None:
        """Hold a lease's VM for ``seconds`` from now, inside the transaction that ends its job."""
        self._begin(lease_id, seconds)

    def begin_fork(self, lease_id: int, job_id: int, seconds: int, opened_by: str, budget_id: int | None = None) -> int:
        """Hold the VM of a fork of a job's disk for ``seconds``, in the transaction that leases it.

        Returns the id of the hold. The budget of an API key pays for it, if one is given.
        """
        return self._begin(lease_id, seconds, job_id, opened_by, budget_id)

    def _begin(
        self,
        lease_id: int,
        seconds: int,
        job_id: int | None = None,
        opened_by: str | None = None,
        budget_id: int | None = None,
    ) -> int:
        organization_id, leased_to, shape = written(self._held.one(id=lease_id))
        if leased_to is not None:
            budget_id = self._budget_of_job.one(id=leased_to)
        now = self._database.now()
        return self._insert.insert(
            lease_id=lease_id,
            organization_id=organization_id,
            job_id=leased_to if job_id is None else job_id,
            opened_by=opened_by,
            started_at=now,
            until=now + seconds * SECOND,
            micro_cents=price(self._billing, shape),
            amount_cents=0,
            budget_id=budget_id,
        )

    def open(self) -> list[Hold]:
        """Return the open holds, oldest first."""
        return self._open.all()

    def over(self) -> list[Hold]:
        """Return the open holds whose time is over, oldest first.

        A hold that starts in the future counts as over: the clock was set back, so it would last too long.
        """
        found = self._over.all(now=self._database.now())
        now = self._database.now()  # once more: a hold that began while the query waited is not in the future
        return [hold for hold in found if to_micros(hold.until) <= now or to_micros(hold.started_at) > now]

    def by_id(self, hold_id: int) -> Hold | None:
        """Return a hold, also one that has ended."""
        return self._get.one(id=hold_id)

    def of_lease(self, lease_id: int) -> Hold | None:
        """Return the open hold of a lease's VM."""
        return self._of_lease.one(lease_id=lease_id)

    def of_build(self, build_id: int) -> list[Hold]:
        """Return the open holds of a build's jobs."""
        return self._of_build.all(build_id=build_id)

    def shorten(self, hold_id: int, reason: HoldEnd) -> bool:
        """Set a hold's planned end to now, so that the next check of holds ends it; False if it has ended."""
        with self._database.write():
            return self._shorten.run(id=hold_id, now=self._database.now(), reason=reason) == 1

    def lengthen(self, hold_id: int, seconds: int) -> bool:
        """Let a hold last ``seconds`` from now, if that is longer; False if it has ended, or is about to."""
        with self._database.write():
            return self._lengthen.run(id=hold_id, until=self._database.now() + seconds * SECOND) == 1

    def forget(self, *, pipeline_id: int | None = None, organization_id: int | None = None) -> None:
        """Set the planned end of all holds of a deleted pipeline or organization to now."""
        with self._database.write():
            self._shorten_all.run(
                pipeline_id=pipeline_id,
                organization_id=organization_id,
                now=self._database.now(),
                reason=HoldEnd.DELETED,
            )

    def release(self, job_id: int) -> None:
        """Set the planned end of the hold of a job's VM to now, inside the caller's transaction."""
        self._release_job.run(job_id=job_id, now=self._database.now(), reason=HoldEnd.RELEASED)

    def end(self, hold_id: int, reason: HoldEnd) -> bool:
        """End a hold and write its one debit; False and no change if it has ended.

        ``reason`` applies if the hold has none yet. A hold that ends as LOST is free.
        """
        with self._database.write():
            hold = written(self._get.one(id=hold_id))
            if hold.finished_at is not None:
                return False
            reason = hold.reason or reason
            started_at, until = to_micros(hold.started_at), to_micros(hold.until)
            finished_at = max(started_at, min(until, self._database.now()))
            seconds = 0 if reason is HoldEnd.LOST else (finished_at - started_at) // SECOND
            cents = self._budgets.of_budget(hold.budget_id, seconds * hold.micro_cents // MICRO_CENTS)
            entry_id = self._ledger.debit_hold(hold.job_id, cents, _what(hold))
            self._finish.run(id=hold_id, reason=reason, finished_at=finished_at, amount_cents=cents, entry_id=entry_id)
            return True
