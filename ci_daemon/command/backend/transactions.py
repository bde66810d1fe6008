"""Entries of ledgers, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ci_daemon.remote.views import Transaction

__all__ = ["Transactions"]


class Transactions(Protocol):
    """The ledgers of organizations. All methods raise Failure, RequestFailed and StorageError."""

    def newest(self, org: str, limit: int) -> list[Transaction]:
        """Return the newest entries of an organization's ledger, newest first."""
        ...
