"""Disks of images: made once for each content, and removed with the image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms import ImageNotFound
from actors.vms.host import IdMap, run_mapped
from actors.vms.host.zygote import Zygote
from actors.vms.qemu.disks import ImageDisks

NAMES = ("one", "two")


class Trees:
    """An image store of small trees, by their names."""

    def __init__(self, folder: Path) -> None:
        self.found = {name: folder / name for name in NAMES}

    def path(self, name: str) -> Path:
        try:
            return self.found[name]
        except KeyError:
            raise ImageNotFound(name) from None


@pytest.fixture
def trees(tmp_path: Path, idmap: IdMap) -> Iterator[Trees]:
    places = " ".join(f"trees/{name}" for name in NAMES)
    run_mapped(["sh", "-c", f"mkdir -p {places}"], idmap=idmap.with_caller(), cwd=tmp_path)
    yield Trees(tmp_path / "trees")
    run_mapped(["rm", "-rf", "trees"], idmap=idmap.with_caller(), cwd=tmp_path)


def test_the_disk_of_a_removed_image_goes_and_others_stay(tmp_path: Path, trees: Trees, idmap: IdMap, zygote: Zygote):
    disks = ImageDisks(tmp_path / "disks", trees, idmap, zygote)
    one, two = map(disks.path, NAMES)
    disks.remove_outdated()
    assert one.stat().st_mode & 0o777 == 0o600
    del trees.found["one"]
    disks.remove_outdated()
    assert (one.exists(), two.exists()) == (False, True)
