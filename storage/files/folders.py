"""Folders and file systems: durable changes, and whether they take files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files.kinds import ARTIFACTS, LOGS, SOURCES
from storage.records.leases import PROVIDERS

if TYPE_CHECKING:
    from pathlib import Path

_FEW_INODES = 1000
_OF_VMS = tuple(f"{provider}/{name}" for provider in PROVIDERS for name in (".", "vms", "snapshots"))
_OF_THEIR_ROOT = tuple(f"{provider}/trees/{name}" for provider in PROVIDERS for name in (".", "disks", "snapshots"))
"""The folders in which only the root user of VMs writes."""


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it survive a crash. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Sync all files of the file system that a folder is on. Raises OSError.

    For trees that others wrote: to sync each of their files would take longer, and they may be unreadable.
    """
    import ctypes  # noqa: PLC0415 - only who keeps trees needs it

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), folder)
    finally:
        os.close(descriptor)


def why_no_files(state_dir: Path) -> str | None:
    """Return why the service cannot write files as jobs need them, as a phrase; None if it can.

    It looks at the state directory and its folders of files and VMs, which may be file systems of their own.
    """
    for name in (".", LOGS, ARTIFACTS, SOURCES, *_OF_VMS, *_OF_THEIR_ROOT):
        folder = state_dir / name
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except PermissionError:
            return f"the folder {folder} cannot be opened"
        if found.f_flag & os.ST_RDONLY:
            return f"the folder {folder} is on a read-only file system"
        if name not in _OF_THEIR_ROOT and not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {folder} cannot be written"
        if found.f_files and found.f_favail < _FEW_INODES:  # some file systems count none
            return f"the file system of {folder} has room for {found.f_favail} files (inodes), of {_FEW_INODES} needed"
    return None
