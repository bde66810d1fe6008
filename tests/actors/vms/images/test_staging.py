"""Sweeping the folders of processes that died."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.vms import ImageStore
from actors.vms.host import IdMap, run_mapped
from actors.vms.images.staging import Staging, StoreLocks
from actors.vms.images.tree import scratch


@pytest.mark.parametrize("memory", [0, 1], ids=["on disk", "in memory"])
def test_the_folder_that_a_dead_build_worked_in_is_swept(tmp_path: Path, idmap: IdMap, memory: int):
    making = tmp_path / ".making-dead@1"
    making.mkdir()
    (tmp_path / ".locks").mkdir()
    with ExitStack() as alive:
        folder = alive.enter_context(scratch(making, idmap, memory=memory))
        assert folder.parent == Path("/dev/shm" if memory else "/var/tmp")
        assert folder.stat().st_mode & 0o777 == 0o710
        run_mapped(["mkdir", "inside"], idmap=idmap.with_caller(), cwd=folder)
        ImageStore(tmp_path, idmap).sweep()
        assert not folder.exists()
        alive.pop_all()


def test_only_unfinished_images_of_dead_processes_are_removed(tmp_path: Path, idmap: IdMap):
    store = ImageStore(tmp_path / "store", idmap)
    store.sweep()
    for name in ("dead@1", "living@1"):
        (tmp_path / "store" / f".making-{name}" / "tree").mkdir(parents=True)
    (tmp_path / "store" / ".locks").mkdir()
    with (tmp_path / "store" / ".locks" / "living@1").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store.sweep()
        assert {path.name for path in (tmp_path / "store").iterdir()} == {".locks", ".making-living@1"}
    store.sweep()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {".locks"}


def test_programs_with_the_ids_of_vms_work_in_it_under_any_umask(tmp_path: Path, idmap: IdMap):
    """The installed service has 077."""
    before = os.umask(0o077)
    try:
        with Staging(tmp_path, idmap, StoreLocks(tmp_path)).new("image:1") as folder:
            run_mapped(["mkdir", "-m", "755", "tree"], idmap=idmap.with_caller(), cwd=folder)
            assert run_mapped(["ls"], idmap=idmap, cwd=folder) == b"tree\n"
    finally:
        os.umask(before)
