"""Cleanup: the reaper, retention, eviction, holds, and the host's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.cleanup.retention import (
        Expired,
        ExpiredTotal,
        KeptBytes,
        SnapshotForest,
        expire,
        free_disks,
        kept_bytes,
        preview,
    )
else:
    __getattr__ = on_first_use(__name__)
