"""Folders and file systems: durable changes, and whether they take files."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from storage.files.kinds import ARTIFACTS, LOGS, SOURCES
from storage.records import PROVIDERS

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["sync_file_system", "sync_folder", "why_no_files"]

_FEW_INODES = 1000


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a crash. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


"""Folders and file systems: durable changes, and whether they take files."""
