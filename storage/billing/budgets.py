"""Charges to the budgets of API keys, for builds and forks (wire-decisions.md, "Billing").

A budget is never exceeded. What is over ends when its key has nothing left, and costs at most what was left then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Query, Write, first, slot
from storage.models.accounts import TokenRow
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import LeaseRow

if TYPE_CHECKING:
    from storage.database.connection import Database


class BudgetCharges:
    """Takes the prices of leases and holds from budgets, inside the transactions that end them."""

    def __init__(self, database: Database) -> None:
        of_lease = (
            LeaseRow.select(BuildRow.budget_id)
            .join(JobRow, on=JobRow.id == LeaseRow.job)
            .join(BuildRow)
            .where(LeaseRow.id == slot("id"))
        )
        self._of_lease = Query(database, lambda: of_lease, first)
        left = TokenRow.budget_cents - TokenRow.spent_cents
        self._left = Query(database, lambda: TokenRow.select(left).where(TokenRow.id == slot("id")), first)
        self._spend = Write(
            database,
            lambda: TokenRow.update({TokenRow.spent_cents: TokenRow.spent_cents + slot("cents")}).where(
                TokenRow.id == slot("id")
            ),
        )

    def of_lease(self, lease_id: int, cents: int) -> int:
        """Return what a lease that cost ``cents`` is charged: all, or what its build's budget has left."""
        return self.of_budget(self._of_lease.one(id=lease_id), cents)

    def of_budget(self, budget_id: int | None, cents: int) -> int:
        """Return what is charged of ``cents``: all without a budget, else at most what it has left."""
        left = None if budget_id is None else self._left.one(id=budget_id)
        if left is None:
            return cents
        charged = min(cents, left)
        self._spend.run(id=budget_id, cents=charged)
        return charged
