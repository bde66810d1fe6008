"""Machines of one folder; at the end of the test none is left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.vms import ImageStore, QemuProvider, QemuSettings, SandboxSettings
from actors.vms.host import IdMap
from actors.vms.host.zygote import Zygote
from storage import SystemClock
from tests.actors.vms.qemu.machines import PROCESSES, SECONDS
from tests.machines import share_image_disks, unpacked_kernel


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def opened(tmp_path: Path, image_store: ImageStore, idmap: IdMap) -> Iterator[Callable[[], QemuProvider]]:
    """Open a provider, as each process does; it merges the layers of each fork."""
    folder, settings = tmp_path / "qemu", QemuSettings(system=unpacked_kernel())
    share_image_disks(folder)
    made: list[QemuProvider] = []

    def provider() -> QemuProvider:
        shared = SandboxSettings(create_seconds=SECONDS, processes=PROCESSES)
        made.append(QemuProvider(folder, image_store, idmap, SystemClock(), settings, shared, max_layers=1))
        return made[-1]

    yield provider
    for vm_id in provider().list():
        made[0].destroy(vm_id)
    for each in made:
        each.close()
    shutil.rmtree(folder)
