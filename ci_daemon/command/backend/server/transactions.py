"""Entries of ledgers of a server."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ci_daemon.remote import operations

if TYPE_CHECKING:
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.views import Transaction

__all__ = ["ServerTransactions"]


class ServerTransactions:
    """Entries by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def newest(self, org: str, limit: int) -> list[Transaction]:
        """Return the newest entries of an organization's ledger, newest first."""
        return list(islice(self._connection.items(operations.LIST_TRANSACTIONS, {"org": org}), limit))
