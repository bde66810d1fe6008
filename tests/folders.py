"""Folders of tests: one for each, usually in memory, and a temporary one that must end up empty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory_folder import memory_folder

_WITH_VMS = tuple(
    Path(__file__).parent / folder for folder in ("actors/vms", "crash", "e2e", "fleet", "power", "system", "vms")
)
"""Tests of real VMs, which need what not every disk in memory can do, and of real disks."""

_OF_OTHERS = ("node-compile-cache", "uv-")
"""Beginnings of the names that programs which are not ours leave in the temporary folder."""


@pytest.fixture(scope="session", autouse=True)
def _temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give this process, and what it starts, a temporary folder; nothing of ours may be left there."""
    tmp_path_factory.getbasetemp()  # it stays where it was
    with (
        tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(folder).chmod(0o1777)
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
        left = sorted(each.name for each in Path(folder).iterdir() if not each.name.startswith(_OF_OTHERS))
        assert left == [], "tests, or the service, left this in the temporary folder"


@pytest.fixture(scope="session")
def memory_disk() -> Iterator[Path]:
    """A folder in memory, if there is room."""
    with memory_folder() as folder:
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
    with tempfile.TemporaryDirectory(dir=memory_disk, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
