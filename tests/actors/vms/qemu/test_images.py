"""Images of machines: those of a registry run as others do, and a base that is none says so."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms import Connection, ImageStore, QemuProvider, QemuSettings, SandboxSettings, VmError, VmSpec
from actors.vms.host import IdMap, run_mapped
from actors.vms.host.vms import LayerChain
from actors.vms.host.zygote import Zygote
from actors.vms.images import PullOptions, Reference
from actors.vms.qemu.disks import ImageDisks
from storage import Shape, SystemClock
from tests.actors.vms.qemu.machines import IMAGE, SECONDS, says
from tests.machines import share_image_disks, unpacked_kernel
from tests.registry import busybox, registry

PULLED = "pulled:1"
SHAPE = Shape(cpu=1, memory_gb=1, disk_gb=1)


@pytest.fixture
def store(tmp_path: Path, idmap: IdMap) -> Iterator[ImageStore]:
    """Images, of which one was pulled from a registry."""
    store = ImageStore(tmp_path / "images", idmap)
    (tmp_path / "registry").mkdir()
    with registry(tmp_path / "registry") as served:
        reference = Reference.parse(served.add(PULLED, busybox(), env={"GREETING": "hello"}))
        store.pull(reference, PULLED, PullOptions(max_bytes=1 << 30, timeout=60.0))
    yield store
    run_mapped(["rm", "-rf", "images"], idmap=idmap.with_caller(), cwd=tmp_path)


@pytest.fixture
def opened(
    tmp_path: Path, store: ImageStore, image_store: ImageStore, idmap: IdMap
) -> Iterator[Callable[[str], QemuProvider]]:
    """Open a provider with a base image, beside which there is one of a registry."""
    folder = tmp_path / "qemu"
    made: list[QemuProvider] = []

    class Both:
        def path(self, name: str) -> Path:
            return (image_store if name == IMAGE else store).path(name)

    def provider(base: str) -> QemuProvider:
        share_image_disks(folder)
        settings, shared = QemuSettings(system=unpacked_kernel()), SandboxSettings(create_seconds=SECONDS)
        images, clock = Both(), SystemClock()
        made.append(QemuProvider(folder, images, idmap, clock, settings, shared, base_image=lambda: base))
        return made[-1]

    yield provider
    for each in made:
        for vm_id in each.list():
            each.destroy(vm_id)
        each.close()
    shutil.rmtree(folder)


@pytest.mark.timeout(1800)
def test_a_job_runs_in_an_image_of_a_registry(opened: Callable[[str], QemuProvider]):
    provider = opened(IMAGE)
    provider.create(VmSpec("vm", PULLED, None, SHAPE, network=False))
    with Connection(provider.connect("vm"), SystemClock(), timeout=SECONDS) as connection:
        assert says(connection, "readlink /bin/ls; echo kept > /workspace/file; cat /workspace/file") == "busybox\nkept"


@pytest.mark.timeout(1800)
def test_a_start_that_fails_shows_the_console(opened: Callable[[str], QemuProvider]):
    """The base image lacks all that a guest mounts on, so the first root gives up and the kernel panics."""
    provider = opened(PULLED)
    with pytest.raises(VmError, match=r"(?s)could not be created: .*Kernel panic"):
        provider.create(VmSpec("vm", IMAGE, None, SHAPE, network=False))
    assert list(provider.list()) == []


def test_an_images_disk_of_an_older_release_is_made_anew(
    tmp_path: Path, store: ImageStore, idmap: IdMap, zygote: Zygote
):
    """Its name was that of the image and its tree alone. That of this release is kept."""
    disks = ImageDisks(tmp_path / "disks", store, idmap, zygote)
    made, stamp = disks.path(PULLED), disks.stamp(PULLED)
    assert ImageDisks(tmp_path / "disks", store, idmap, zygote).stamp(PULLED) == stamp
    older = made.with_name(made.name.rpartition("-")[0] + made.suffix)
    made.rename(older)
    assert disks.stamp(PULLED) != stamp
    assert list((tmp_path / "disks").iterdir()) == [made]


def test_a_snapshot_fits_the_very_disk_of_its_image_alone(
    tmp_path: Path, store: ImageStore, idmap: IdMap, zygote: Zygote
):
    """The same files lie elsewhere on another one."""
    folder = tmp_path / "qemu"
    provider = QemuProvider(folder, store, idmap, SystemClock(), QemuSettings(), SandboxSettings())
    disks = ImageDisks(folder / "images", store, idmap, zygote)
    snapshot = folder / "snapshots" / "taken"
    snapshot.mkdir()
    (snapshot / "chain").write_bytes(LayerChain(PULLED, disks.stamp(PULLED)).dumps())
    assert provider.snapshot_image("taken") == PULLED
    disks.path(PULLED).unlink()
    assert provider.snapshot_image("taken") is None
    provider.close()
