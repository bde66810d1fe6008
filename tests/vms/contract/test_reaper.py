"""The reaper over each provider: it frees what no lease names, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from actors.cleanup.reaper import Reaper
from actors.parts import VmParts
from actors.settings import JobSettings, LiveSettings, PoolSettings
from actors.vms import Images, ImageStore, Provider, VmSpec
from storage import Storage, SystemClock
from tests.actors.conftest import settings_with
from tests.memory.provider import only
from tests.state import new_storage
from tests.vms.contract.conftest import park
from tests.vms.contract.hosts import IMAGE, Host
from tests.waiting import until


@dataclass(frozen=True)
class Reaping:
    storage: Storage
    provider: Provider
    reaper: Reaper

    def park(self) -> str:
        """Park a VM that waits for a job."""
        lease = self.storage.leases.reserve_parked(str(uuid4()), provider=self.provider.name)
        park(self.provider, lease.uuid)
        assert self.storage.leases.parked(lease.id)
        return lease.uuid


@pytest.fixture
def reaping(provider: Provider, image_store: ImageStore, tmp_path: Path) -> Iterator[Reaping]:
    clock = SystemClock()
    storage = new_storage(tmp_path / "state", clock)
    reaper = Reaper(
        VmParts(
            storage=storage,
            providers=only(provider),
            images=Images(image_store, IMAGE, {}),
            clock=clock,
            live_settings=LiveSettings(settings_with(PoolSettings(), JobSettings())),
        )
    )
    yield Reaping(storage, provider, reaper)
    storage.close()


@pytest.mark.parks
def test_what_no_lease_names_is_freed_and_the_rest_stays(host: Host, reaping: Reaping):
    """An orphan is destroyed; of two parked VMs the one that crashed ends with its lease."""
    waits, crashed, orphan = reaping.park(), reaping.park(), str(uuid4())
    reaping.provider.create(VmSpec(orphan, IMAGE, network=False))
    host.crash(crashed)
    until(lambda: not reaping.provider.parked(crashed), "the VM's end")
    reaping.reaper.reap()
    assert list(reaping.provider.list()) == [waits]
    assert reaping.provider.parked(waits)
    assert [lease.uuid for lease in reaping.storage.leases.live()] == [waits]


def test_snapshots_without_a_row_go_though_they_are_a_chain(reaping: Reaping):
    provider, below = reaping.provider, None
    for name in ("below", "above"):
        provider.create(VmSpec("vm", IMAGE, below, network=False))
        provider.snapshot("vm", name)
        provider.destroy("vm")
        below = name
    reaping.reaper.reap()
    assert list(provider.snapshots()) == []
