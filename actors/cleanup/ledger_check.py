"""Verification of the ledger while the service runs (engine.md, "After a crash")."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.metrics import EngineMetrics
    from storage import Storage

_log = logging.getLogger(__name__)


def verify_ledger(storage: Storage, metrics: EngineMetrics) -> None:
    """Compare balances, entries and prices; log each discrepancy and set their metric. Blocks.

    No debit may be lost, and none made twice.
    """
    found = storage.ledger.verify()
    for discrepancy in found:
        _log.error("the ledger of %s is wrong: %s", discrepancy.organization_slug, discrepancy.problem)
    metrics.verified(len(found))
