"""Budgets of API keys: what is left of them, and the end of builds and forks when that is nothing.

See wire-decisions.md, "Billing".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.billing.settings import MICRO_CENTS, price
from storage.data_classes import immutable
from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, slot
from storage.models.accounts import TokenRow
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import HoldRow, LeaseRow
from storage.records.jobs import BuildErrorCode, Shape
from storage.records.leases import HoldEnd

if TYPE_CHECKING:
    from storage.billing.holds import Holds
    from storage.billing.settings import BillingSettings
    from storage.builds.builds import Builds
    from storage.database.connection import Database


@immutable
class Budget:
    """An API key's bound and cost so far, with that of its builds and forks that run, in cents."""

    description: str
    budget_cents: int
    spent_cents: int

    @property
    def left(self) -> int:
        """The cents that are left; never below 0."""
        return max(0, self.budget_cents - self.spent_cents)


class Budgets:
    """Reads budgets, and ends the builds and forks whose budgets are spent. Safe in any thread."""

    def __init__(self, database: Database, billing: BillingSettings, builds: Builds, holds: Holds) -> None:
        self._database = database
        self._billing = billing
        self._builds = builds
        self._holds = holds
        token = Columns.of(Budget, TokenRow)
        named = (TokenRow.id == slot("id")) & TokenRow.budget_cents.is_null(is_null=False)
        self._budget = Query(database, lambda: TokenRow.select(*token.selected).where(named), token)
        budgeted, unfinished = BuildRow.budget_id.is_null(is_null=False), BuildRow.finished_at.is_null()
        self._open_builds = Query(
            database, lambda: BuildRow.select(BuildRow.id, BuildRow.budget_id).where(budgeted, unfinished), tuple
        )
        held, open_hold = HoldRow.budget_id.is_null(is_null=False), HoldRow.finished_at.is_null()
        self._open_holds = Query(
            database, lambda: HoldRow.select(HoldRow.id, HoldRow.budget_id).where(held, open_hold), tuple
        )
        shape = Columns.of(Shape, LeaseRow)
        self._running = Query(
            database,
            lambda: (
                LeaseRow.select(*shape.selected, LeaseRow.started_at)
                .join(JobRow, on=JobRow.id == LeaseRow.job)
                .join(BuildRow)
                .where(
                    BuildRow.budget_id == slot("id"),
                    unfinished,
                    LeaseRow.started_at.is_null(is_null=False),
                    LeaseRow.finished_at.is_null(),
                )
            ),
            lambda row: (shape(row[:3]), row[3]),
        )
        self._held = Query(
            database,
            lambda: HoldRow.select(HoldRow.micro_cents, HoldRow.started_at, HoldRow.until).where(
                HoldRow.budget_id == slot("id"), open_hold
            ),
            tuple,
        )

    def of_key(self, token_id: int) -> Budget | None:
        """Return the budget of an API key, with what its builds and forks cost so far; None if it has none."""
        budget = self._budget.one(id=token_id)
        if budget is None:
            return None
        now, running = self._database.now(), 0
        for shape, started_at in self._running.all(id=token_id):
            running += _cents(price(self._billing, shape), started_at, now)
        for micro_cents, started_at, until in self._held.all(id=token_id):
            running += _cents(micro_cents, started_at, min(now, until))
        return Budget(budget.description, budget.budget_cents, budget.spent_cents + running)

    def end_what_is_over(self) -> None:
        """Ask for the end of builds and forks whose budgets have nothing left."""
        builds, holds = self._open_builds.all(), self._open_holds.all()
        over: dict[int, Budget] = {}
        for token_id in {each[1] for each in (*builds, *holds)}:
            budget = self.of_key(token_id)
            if budget is not None and not budget.left:
                over[token_id] = budget
        for hold_id, token_id in holds:
            if token_id in over:
                self._holds.shorten(hold_id, HoldEnd.EXPIRED)
        for build_id, token_id in builds:
            if token_id in over:
                self._end(build_id, over[token_id])

    def _end(self, build_id: int, budget: Budget) -> None:
        why = f'the API key "{budget.description}" that started it has spent its budget of {budget.budget_cents} cents'
        with self._database.write():
            if self._builds.record_error(build_id, BuildErrorCode.BUDGET_EXHAUSTED, why):
                self._builds.request_cancel(build_id)


def _cents(micro_cents: int, started_at: int, until: int) -> int:
    """Return the price of what began at ``started_at``, as if it ended now."""
    return max(0, until - started_at) // SECOND * micro_cents // MICRO_CENTS
