"""Entries of ledgers of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.lookup import find_organization
from ci_daemon.remote.views import Transaction

if TYPE_CHECKING:
    from storage import Storage

__all__ = ["BoxTransactions"]


class BoxTransactions:
    """Entries in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def newest(self, org: str, limit: int) -> list[Transaction]:
        """Return the newest entries of an organization's ledger, newest first."""
        page = self._storage.ledger.page(find_organization(self._storage, org).id, limit, None)
        return [Transaction.of(each) for each in page.rows]
