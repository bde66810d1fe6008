"""Folders for tests on a disk in memory, where a sync takes no time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_DISK = Path("/dev/shm")
_PREFIX = "ci-daemon-tests-"
_NEEDED_BYTES = 1 << 30
"""More than the tests of all workers keep at once."""

_WITH_VMS = tuple(
    Path(__file__).parent / folder for folder in ("actors/vms", "crash", "e2e", "fleet", "power", "system", "vms")
)
"""Tests of real VMs, which need what not every disk in memory can do, and of real disks."""


@pytest.fixture(scope="session")
def memory_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory; on the real disk where a container's memory has no room or runs no programs."""
    if not _usable():
        yield tmp_path_factory.mktemp("disk")
        return
    _remove_leftovers()
    with TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=_DISK, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, memory_disk: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A folder for one test: in memory, unless its VMs are real. Tests wait longer for syncs than run."""
    real = request.node.get_closest_marker("sandbox") is not None or "images_dir" in request.fixturenames
    if real or any(request.path.is_relative_to(each) for each in _WITH_VMS):
        yield tmp_path_factory.mktemp("disk")
        return
    with TemporaryDirectory(dir=memory_disk, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _remove_leftovers() -> None:
    """Remove the folders of runs that were killed, which hold memory."""
    for folder in _DISK.glob(f"{_PREFIX}*-*"):
        process = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _usable() -> bool:
    try:
        disk = os.statvfs(_DISK)
    except FileNotFoundError:
        return False
    runs = not disk.f_flag & os.ST_NOEXEC
    return runs and disk.f_bavail * disk.f_frsize > _NEEDED_BYTES and os.access(_DISK, os.W_OK)
