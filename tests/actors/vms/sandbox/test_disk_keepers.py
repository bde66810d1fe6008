"""The processes that change disks: they stay for the next work, and others take their place."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import VmError
from actors.vms.host import IdMap, run_mapped
from actors.vms.host.ids import Extent
from actors.vms.host.zygote import Zygote
from actors.vms.sandbox.disks import DiskKeepers
from tests.waiting import until

FOLDERS = ("disks", "snapshots", "trash/disks", "trash/snapshots")
TITLE = b"ci-daemon disks"


class Place:
    """A folder of disks, and the keepers that change it."""

    def __init__(self, folder: Path, idmap: IdMap) -> None:
        self.folder = folder
        self.idmap = idmap
        self.zygote = Zygote()
        self.keepers = DiskKeepers(folder, idmap, self.zygote, idle_seconds=600)
        self.mapped("mkdir", "-p", *FOLDERS)

    def mapped(self, *argv: str) -> None:
        run_mapped(argv, idmap=self.idmap, cwd=self.folder)

    def make(self, *names: str) -> None:
        """Make disks with a file in each."""
        for name in names:
            self.mapped("sh", "-c", f"mkdir -p disks/{name}/upper; echo 1 > disks/{name}/upper/file")

    def processes(self) -> set[int]:
        """Return the keepers of this folder."""
        return {int(process.name) for process in Path("/proc").glob("[0-9]*") if self._is_keeper(process)}

    def _is_keeper(self, process: Path) -> bool:
        try:
            return (process / "cmdline").read_bytes().startswith(TITLE) and (process / "cwd").readlink() == self.folder
        except OSError:
            return False


@pytest.fixture
def place(tmp_path: Path, idmap: IdMap) -> Iterator[Place]:
    folder = tmp_path / "trees"
    run_mapped(["mkdir", "trees"], idmap=idmap.with_caller(), cwd=tmp_path)
    place = Place(folder, idmap)
    try:
        yield place
    finally:
        place.keepers.close()
        place.zygote.close()
        run_mapped(["rm", "-rf", "trees"], idmap=idmap.with_caller(), cwd=tmp_path)
        until(lambda: not place.processes(), "the keepers' end")


def test_a_keeper_stays_for_the_next_work(place: Place) -> None:
    place.make("a", "b")
    place.keepers.change("remove", "disks", "a")
    first = place.processes()
    place.keepers.change("freeze", "b", "kept")
    assert len(first) == 1
    assert place.processes() == first
    assert (place.folder / "snapshots/kept/upper/file").read_text() == "1\n"
    assert list((place.folder / "disks").iterdir()) == []


def test_an_idle_keeper_ends_and_another_serves(place: Place) -> None:
    keepers = DiskKeepers(place.folder, place.idmap, place.zygote, idle_seconds=0.1)
    place.make("a", "b")
    try:
        for name in ("a", "b"):
            keepers.change("remove", "disks", name)
            assert not (place.folder / "disks" / name).exists()
            until(lambda: not place.processes(), "its end")
    finally:
        keepers.close()


def test_a_killed_keeper_is_replaced(place: Place) -> None:
    place.make("a", "b")
    place.keepers.change("remove", "disks", "a")
    (killed,) = place.processes()
    os.kill(killed, signal.SIGKILL)
    until(lambda: not place.processes(), "its end")
    place.keepers.change("remove", "disks", "b")
    assert list((place.folder / "disks").iterdir()) == []


def test_work_goes_on_beside_work_that_takes_long(place: Place) -> None:
    place.make("a", "b", "c")
    place.keepers.change("remove", "disks", "a")
    (busy,) = place.processes()
    os.kill(busy, signal.SIGSTOP)
    try:
        waiting = threading.Thread(target=place.keepers.change, args=("remove", "disks", "b"))
        waiting.start()
        until(lambda: not place.keepers.idle, "the thread to take the keeper")
        place.keepers.change("remove", "disks", "c")
        assert [path.name for path in (place.folder / "disks").iterdir()] == ["b"]
    finally:
        os.kill(busy, signal.SIGCONT)
    waiting.join()
    assert list((place.folder / "disks").iterdir()) == []


def test_a_burst_leaves_two_keepers(place: Place) -> None:
    names = [f"disk{number}" for number in range(8)]
    place.make(*names)
    threads = [threading.Thread(target=place.keepers.change, args=("remove", "disks", name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list((place.folder / "disks").iterdir()) == []
    until(lambda: len(place.processes()) <= 2, "the others' end")


def test_the_reason_of_a_failure_is_said(place: Place) -> None:
    """The next work is done by the same keeper."""
    place.make("a")
    place.mapped("rmdir", "snapshots")
    with pytest.raises(VmError, match=r"\(freeze a kept\): .*No such file or directory"):
        place.keepers.change("freeze", "a", "kept")
    (keeper,) = place.processes()
    place.keepers.change("remove", "disks", "a")
    assert place.processes() == {keeper}


def test_keepers_are_root_of_the_vms_alone(place: Place) -> None:
    place.make("a")
    place.keepers.change("remove", "disks", "a")
    (keeper,) = place.processes()
    facts = dict(line.split(":\t", 1) for line in Path(f"/proc/{keeper}/status").read_text().splitlines())
    assert set(facts["Uid"].split()) == {str(place.idmap.root_uid)}
    assert facts["Groups"].strip() == ""
    assert Path(f"/proc/{keeper}/uid_map").read_text().split() == str(place.idmap.uids[0]).split()


def test_ids_that_cannot_be_mapped_are_named(place: Place) -> None:
    wrong = IdMap((Extent(0, (1 << 32) - 2, 65536),), (Extent(0, (1 << 32) - 2, 65536),))

    keepers = DiskKeepers(place.folder, wrong, place.zygote)
    try:
        with pytest.raises(VmError, match=r"the ids 0 4294967294 65536 .* cannot be mapped"):
            keepers.change("remove", "disks", "a")
    finally:
        keepers.close()
